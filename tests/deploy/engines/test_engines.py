"""Every engine gives torch's answers on real images, for any number of them, from any thread."""

import threading

import pytest
import torch

import vitrail as vt
from vitrail.data.digits import open_digits
from vitrail.deploy.engines import ENGINES, kept, make_engine, missing, onnx_runtime, open_vino
from vitrail.deploy.engines.compiled import CompiledEngine
from vitrail.deploy.export.interface import plain_interface

pytestmark = pytest.mark.compiled
COMPILE = torch.compile


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VITRAIL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def model():
    """A small ViT with a class token; weights large enough that images are distinguished."""
    torch.manual_seed(0)
    model = vt.create_model(
        "vit_tiny_patch16_224", width=24, depth=1, heads=2, patch=2, image_size=8, in_channels=1, num_classes=10
    )
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return model.eval()


@pytest.fixture(scope="module", params=ENGINES)
def classify(request, model):
    if (lack := missing(request.param)) is not None:
        pytest.skip(lack)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "compile":  # the same graphs and guards, without half a minute of C++; see test_compiled_engine.py
            patch.setattr(torch, "compile", lambda model, options: COMPILE(model, backend="aot_eager"))
        return vt.pipeline("image-classification", model, engine=request.param)


@pytest.fixture(scope="module")
def images():
    test = open_digits()["test"]
    return [test[index][0] for index in range(12)]


def close(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert [row["label"] for row in one] == [row["label"] for row in other]
        assert [row["score"] for row in one] == pytest.approx([row["score"] for row in other], abs=1e-5)


def test_answers_are_torchs_for_any_number_of_images(classify, model, images):
    expected = vt.pipeline("image-classification", model)(images)
    scores = [answer[0]["score"] for answer in expected]
    assert max(scores) - min(scores) > 1e-2  # or any answer would do
    for batch in (1, 2, 3, 4, 5, 12):
        close(classify(images, batch=batch), expected)
    assert classify.engine_report == classify.engine.name


def test_threads_get_their_own_answers(classify, images):
    expected = classify(images, batch=1)
    found: dict[int, list] = {}

    def ask(number):
        found[number] = [classify(images[(number + shift) % 12]) for shift in range(12)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        close(found[number], [expected[(number + shift) % 12] for shift in range(12)])


def test_an_answer_is_kept_when_the_next_comes(classify, model):
    """A runtime that hands out its own memory would write over it."""
    first, second = torch.zeros(1, 1, 8, 8), torch.ones(1, 1, 8, 8)
    found = classify.engine(first)
    before = found.clone()
    classify.engine(second)
    assert torch.equal(found, before)


def test_images_need_not_be_contiguous(classify, model, images):
    inputs = torch.stack([classify.to_input([image])[0] for image in images[:2]])
    turned = inputs.transpose(2, 3)
    with torch.inference_mode():
        torch.testing.assert_close(classify.engine(turned), model(turned), atol=1e-4, rtol=0)


def test_compiling_happens_twice_and_not_again(model, monkeypatch):
    """For one image and for several, however they are stored and whatever mode made them."""
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", lambda model, options: COMPILE(model, backend=count))
    engine = CompiledEngine(model, plain_interface(model))
    assert len(graphs) == 2
    for batch in (1, 2, 3, 7):
        images = torch.randn(batch, 1, 8, 8)
        with torch.inference_mode():
            other = torch.randn(batch, 1, 8, 8).transpose(2, 3)
            torch.testing.assert_close(engine(other), model(other), atol=1e-5, rtol=0)
            engine(images)
        engine(images.transpose(2, 3))
    assert len(graphs) == 2


@pytest.mark.parametrize("name, module", [("onnxruntime", onnx_runtime), ("openvino", open_vino)])
def test_a_second_engine_of_the_same_weights_needs_no_export(name, module, model, monkeypatch):
    if missing(name) is not None:
        pytest.skip("not installed")
    make_engine(model, name)

    def refuse(*_, **__):
        raise AssertionError("exported again")

    monkeypatch.setattr(module, f"write_{name.removesuffix('runtime')}", refuse)
    make_engine(model, name)
    monkeypatch.setattr(kept, "versions", lambda: {name: "another version"})
    with pytest.raises(vt.VitrailError, match=f"the engine {name} cannot take this model: exported again"):
        make_engine(model, name)


def test_auto_measures_once_and_remembers(model, images, monkeypatch):
    from vitrail.deploy.engines import automatic

    monkeypatch.setattr(automatic, "SECONDS", 0.0)
    monkeypatch.setattr(automatic, "installed", lambda: tuple(name for name in ("torch", "openvino") if missing(name) is None))
    expected = vt.pipeline("image-classification", model)(images)
    first = vt.pipeline("image-classification", model, engine="auto")
    assert first.engine_report == ""  # nothing was asked yet
    close(first(images), expected)
    assert first.engine_report.startswith("batch 8: ")
    assert "measured in" in first.engine_report
    close([first(images[0])], expected[:1])
    assert [line.split(":")[0] for line in first.engine_report.splitlines()] == ["batch 1", "batch 8"]
    second = vt.pipeline("image-classification", model, engine="auto")
    close(second(images), expected)
    assert "remembered" in second.engine_report


def test_images_of_many_sizes_are_left_to_torch(model, images):
    from dataclasses import replace

    other = vt.create_model(
        "vit_tiny_patch16_224", width=24, depth=1, heads=2, patch=2, image_size=8, in_channels=1, num_classes=10
    )
    other.preprocessing = replace(other.preprocessing, fit="aspect")
    with pytest.warns(UserWarning, match="images of many sizes, which the engine openvino does not: torch answers"):
        classify = vt.pipeline("image-classification", other, engine="openvino")
    assert classify.engine.name == "torch"
    assert len(classify([images[0], images[1].resize((12, 6))])) == 2
