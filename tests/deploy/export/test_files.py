"""Exported files: what they compute, what they take, and what they say of themselves."""

import json
from functools import partial

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.deploy.export.exporting import Format, export_file, plain_images
from vitrail.deploy.export.metadata import metadata_of
from vitrail.deploy.export.onnx_file import open_onnx
from vitrail.deploy.export.openvino_file import open_openvino
from vitrail.deploy.export.pt2_file import open_pt2
from vitrail.models.parts import POSITIONS
from vitrail.run.export import export_model, interface_of

pytestmark = pytest.mark.compiled
ViT = {"width": 24, "heads": 2, "depth": 2, "patch": 8, "image_size": (24, 40), "num_classes": 7}
WRITERS = {
    "onnx": (partial(export_model, format="onnx"), open_onnx),
    "openvino": (partial(export_model, format="openvino"), open_openvino),
    "pt2": (partial(export_model, format="pt2"), open_pt2),
}


def stirred(name, **options):
    """A model none of whose parts is what it was initialized to: a scale of 1, a bias of 0 or a norm without statistics hides errors."""
    torch.manual_seed(0)
    model = vt.create_model(name, **options).eval()
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.ndim == 1 and tensor.is_floating_point():
            tensor.data.add_(0.1 * torch.rand_like(tensor))
    return model


def make_images(model, count=4, size=None, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, model.config.in_channels, *(size or model.image_size), generator=generator)


@pytest.mark.parametrize("format", list(WRITERS))
def test_a_vit_with_learned_positions_takes_any_number_and_size(format, tmp_path):
    model = stirred("vit_tiny_patch16_224", **ViT)
    write, open_file = WRITERS[format]
    done = write(model, tmp_path / "file", images=make_images(model), dynamic_size="auto", check=True)
    assert done.step == 8
    assert done.parity is not None
    assert done.parity.deviation < 1e-5
    assert done.parity.sizes == ((24, 40), (40, 32))
    run = open_file(done.path)
    for count, size in ((1, (24, 40)), (3, (40, 24)), (2, (16, 56)), (5, (64, 64))):
        images = make_images(model, count, size)
        with torch.inference_mode():
            assert_close(run(images), model(images), atol=1e-5, rtol=1e-5)
    if format != "onnx":  # which also takes a single cell
        with pytest.raises(Exception, match=r"16|shape"):
            run(make_images(model, 2, (8, 56)))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_onnx_of_one_size_has_resized_positions_and_refuses_others(tmp_path):
    """Another size than the model's own, odd and not square; attention, norm and GELU are single operators."""
    onnx = pytest.importorskip("onnx")
    model = stirred("vit_tiny_patch16_224", **ViT)
    model.labels = ("größer", *"abcdef")
    images = make_images(model, size=(56, 72))
    path = export_model(model, tmp_path / "model.onnx", format="onnx", images=images, dynamic_size="off").path
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    (given,), (found,) = proto.graph.input, proto.graph.output
    assert (given.name, found.name) == ("images", "logits")
    assert [dim.dim_param or dim.dim_value for dim in given.type.tensor_type.shape.dim] == ["batch", 3, 56, 72]
    assert [dim.dim_param or dim.dim_value for dim in found.type.tensor_type.shape.dim] == ["batch", 7]
    kinds = [node.op_type for node in proto.graph.node]
    assert (kinds.count("Attention"), kinds.count("LayerNormalization"), kinds.count("Gelu")) == (2, 5, 2)
    about = {entry.key: json.loads(entry.value) for entry in proto.metadata_props}
    assert about["labels"] == list(model.labels)
    assert about["preprocessing"]["size"] == [56, 72]
    assert (about["size_step"], about["output"], about["architecture"]) == (None, "logits", "vit")
    run = open_onnx(path)
    with torch.inference_mode():
        assert_close(run(images[:1]), model(images[:1]), atol=1e-5, rtol=1e-5)
    with pytest.raises(Exception, match="invalid dimensions"):
        run(make_images(model, size=(24, 40)))


def test_a_file_that_answers_otherwise_is_not_written(tmp_path, monkeypatch):
    model = stirred("vit_tiny_patch16_224", **ViT)
    monkeypatch.setattr("vitrail.deploy.export.pt2_file.open_pt2", lambda path: lambda images: model(images) + 2e-4)
    (tmp_path / "model.pt2").write_text("an older file")
    with pytest.raises(vt.VitrailError, match=r"not written.* 0\.0002 .*1e-04"):
        export_model(model, tmp_path / "model.pt2", format="pt2", images=make_images(model), dynamic_size="off", check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt2"]
    assert (tmp_path / "model.pt2").read_text() == "an older file"


def test_features_without_a_check(tmp_path):
    model = stirred("vit_tiny_patch16_224", **{**ViT, "num_classes": 0})
    how = {"dynamic_size": "off", "check": False, "opset": 20}
    done = export_model(model, tmp_path / "model", format="onnx", images=plain_images(model), **how)
    assert (done.path.name, done.parity, json.loads(metadata_of(model, interface_of(model))["output"])) == (
        "model.onnx",
        None,
        "features",
    )
    images = make_images(model)
    with torch.inference_mode():
        assert_close(open_onnx(done.path)(images), model(images), atol=1e-5, rtol=1e-5)


OTHERS = {
    "swin": lambda: stirred("swin_nano_patch2_window4_32", depths=(2, 1), image_size=(18, 22)),
    "resnet": lambda: stirred("resnet8_32", image_size=64),
    "gsa": lambda: stirred("gsa_p4_small"),
    "gcnn": lambda: stirred("gcnn_p4_small"),
    "conv": lambda: stirred("vit_nano_conv", image_size=(30, 34), in_channels=1),
    "merged": lambda: stirred("vit_tiny_patch16_224", **{**ViT, "image_size": (48, 40), "merge": 3}),
    "antialiased": lambda: stirred("vit_tiny_patch16_224", **ViT, position_antialias=True, prefix=3, prefix_rows=False),
    "distilled": lambda: stirred("vit_tiny_patch16_224", **ViT, distilled=True, prefix=2),
    "swinir": lambda: stirred("swinir_nano_x2"),
    "unet": lambda: stirred("unet_nano"),
}
FREE = {"resnet": 32, "conv": 4, "antialiased": 8, "distilled": 8}


def check_export(model, step, tmp_path, format="onnx"):
    write, open_file = WRITERS[format]
    size = (32, 32) if model.preprocessing.size == (1, 1) else model.image_size
    done = write(model, tmp_path / "file", images=make_images(model, size=size), dynamic_size="auto", check=True)
    assert done.step == step
    run, more = open_file(done.path), make_images(model, 6, size, seed=2)
    with torch.inference_mode():
        assert_close(run(more), model(more), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "name", [pytest.param("swin", marks=pytest.mark.slow), "gcnn", pytest.param("merged", marks=pytest.mark.slow)]
)
def test_onnx_of_other_kinds(name, tmp_path):
    check_export(OTHERS[name](), FREE.get(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("format", list(WRITERS))
@pytest.mark.parametrize("name", list(OTHERS))
def test_every_kind_in_every_format(name, format, tmp_path):
    one_size = (name, format) == ("antialiased", "openvino")  # it cannot resize so
    check_export(OTHERS[name](), None if one_size else FREE.get(name), tmp_path, format)


@pytest.mark.slow
@pytest.mark.parametrize("position", list(POSITIONS))
def test_onnx_of_any_size_with_every_position(position, tmp_path):
    model = stirred("vit_tiny_patch16_224", **{**ViT, "width": 48}, position=position)
    done = export_model(model, tmp_path / "model.onnx", format="onnx", images=make_images(model), dynamic_size="on")
    run = open_onnx(done.path)
    for size in ((24, 40), (56, 32)):
        images = make_images(model, 3, size)
        with torch.inference_mode():
            assert_close(run(images), model(images), atol=2e-5, rtol=1e-4)


def test_a_converter_that_gives_up_says_so_in_one_line(tmp_path):
    model = stirred("vit_tiny_patch16_224", **ViT)
    forward = model.forward
    model.forward = lambda images: (
        forward(images) if images.sum() > 0 else -forward(images)
    )  # a branch by what is in the images
    with pytest.raises(vt.VitrailError, match=r"^torch\.export cannot follow a model of the kind vit: .+") as caught:
        export_model(model, tmp_path / "file.onnx", format="onnx", images=make_images(model))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_writer_that_gives_up_leaves_nothing(tmp_path):
    model = stirred("vit_tiny_patch16_224", **ViT)

    def write(program, path, texts):
        path.write_text("half")
        raise RuntimeError("no such operator\nand pages of more")

    with pytest.raises(vt.VitrailError, match=r"^stone cannot follow a model of the kind vit: no such operator$"):
        export_file(
            model,
            tmp_path / "file",
            Format("stone", ".stone", write, open_onnx),
            interface=interface_of(model),
            images=make_images(model),
            dynamic_size="off",
            check=True,
        )
    assert not list(tmp_path.iterdir())
