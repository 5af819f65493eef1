"""Engines by name, the choice among them, and what is remembered: without exporting anything."""

import json
import threading
from functools import partial

import pytest
import torch

import vitrail as vt
from vitrail.deploy.engines import Automatic, automatic, choose_engine, compiled, make_engine, making, missing, remembering
from vitrail.deploy.engines.automatic import batch_class, describe
from vitrail.deploy.engines.engine import check_answers
from vitrail.deploy.engines.remembering import cache_folder, recall, remember
from vitrail.deploy.measuring import Timing, interleaved

IMAGE = torch.zeros(1, 1, 8, 8)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("VITRAIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model():
    return vt.create_model("vit_nano_conv", num_classes=3, image_size=8, in_channels=1, depth=1).eval()


class Timed:
    """An engine that takes its time, by a clock that nothing else moves."""

    now = 0.0

    def __init__(self, name: str, seconds: float) -> None:
        self.name, self.seconds = name, seconds

    def __call__(self, images):
        Timed.now += self.seconds
        return torch.zeros(len(images), 3)


@pytest.fixture
def race(monkeypatch):
    """race(torch=..., openvino=...): engines of such seconds are installed; gives what builds them, and the list of what it built."""

    def start(**seconds):
        made: list[str] = []

        def make(name):
            made.append(name)
            if seconds[name] is None:
                raise vt.VitrailError(f"{name} does not like this model")
            return Timed(name, seconds[name])

        monkeypatch.setattr(automatic, "installed", lambda: tuple(seconds))
        monkeypatch.setattr(automatic, "SECONDS", 0.0)
        monkeypatch.setattr(automatic, "interleaved", partial(interleaved, clock=lambda: Timed.now))
        return make, made

    return start


def test_the_fastest_is_chosen_and_remembered(race, model, cache):
    make, made = race(torch=0.004, onnxruntime=0.001, openvino=0.002)
    first = choose_engine(model, batch=1, make=make)
    assert (first.engine, first.batch, first.remembered) == ("onnxruntime", 1, False)
    assert list(first.milliseconds) == ["torch", "onnxruntime", "openvino"]
    assert first.milliseconds == {"torch": 4, "onnxruntime": 1, "openvino": 2}
    assert made == ["torch", "onnxruntime", "openvino"]
    again = choose_engine(model, batch=1, make=make)
    assert again == first._replace(remembered=True)
    assert len(made) == 3  # nothing was built for it
    assert "remembered" in describe(again)
    assert describe(first).startswith("batch 1: onnxruntime (measured in ")


def test_a_gain_of_less_than_three_percent_is_none(race, model, monkeypatch):
    make, _ = race(torch=0.0, openvino=0.0)
    fixed = {"torch": 1.0, "openvino": 0.98}
    monkeypatch.setattr(automatic, "interleaved", lambda runners, **_: {name: Timing((fixed[name],)) for name in runners})
    assert choose_engine(model, batch=1, make=make).engine == "torch"
    fixed["openvino"] = 0.97
    assert choose_engine(model, batch=8, make=make).engine == "openvino"


def test_one_that_refuses_is_passed_over_and_named(race, model):
    make, _ = race(torch=0.001, openvino=None)
    choice = choose_engine(model, make=make)
    assert choice.engine == "torch"
    assert choice.refused == {"openvino": "openvino does not like this model"}
    assert "does not like" in describe(choice)


@pytest.mark.parametrize(
    "there, tried",
    [
        (("torch",), ("torch",)),
        (("torch", "compile"), ("torch", "compile")),
        (("torch", "compile", "openvino"), ("torch", "openvino")),
    ],
)
def test_compiling_is_tried_where_there_is_no_runtime(there, tried, monkeypatch):
    monkeypatch.setattr(automatic, "installed", lambda: there)
    assert automatic.candidates() == tried


def test_what_a_choice_depends_on(race, model, monkeypatch):
    make, made = race(torch=0.001)

    def is_measured(like, **options):
        made.clear()
        choose_engine(like, make=make, **options)
        return bool(made)

    assert is_measured(model)
    assert not is_measured(model)
    other_weights = vt.create_model("vit_nano_conv", num_classes=3, image_size=8, in_channels=1, depth=1)
    assert not is_measured(other_weights)
    assert is_measured(vt.create_model("vit_nano_conv", num_classes=3, image_size=16, in_channels=1, depth=1))
    assert is_measured(model, batch=8)
    assert not is_measured(model, batch=31)  # as one of 8
    assert is_measured(model, threads=7)
    monkeypatch.setattr(automatic, "versions", lambda: {"torch": "99"})
    assert is_measured(model)
    monkeypatch.setattr(automatic, "processor", lambda: "an abacus")
    assert is_measured(model)


@pytest.mark.parametrize("batch, size", [(0, 1), (1, 1), (7, 1), (8, 8), (31, 8), (32, 32), (1000, 32)])
def test_batches_count_as_the_largest_size_they_reach(batch, size):
    assert batch_class(batch) == size


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"format": 1}', '{"format": 99, "choices": {}}', '{"format": 1, "choices": 3}', "\0\0", "[" * 99999],
)
def test_a_broken_memory_is_ignored_and_written_anew(content, cache):
    cache.mkdir()
    (cache / "engines.json").write_text(content)
    assert recall("key") is None
    remember("key", {"engine": "torch"})
    assert recall("key") == {"engine": "torch"}
    assert json.loads((cache / "engines.json").read_text())["format"] == 1


@pytest.mark.parametrize("stored", [3, {}, {"engine": "abacus"}, {"engine": "torch", "unknown": 1}])
def test_a_choice_that_makes_no_sense_is_measured_again(stored, race, model, monkeypatch):
    make, made = race(torch=0.0)
    monkeypatch.setattr(automatic, "recall", lambda key: stored if isinstance(stored, dict) else None)
    assert choose_engine(model, make=make).engine == "torch"
    assert made == ["torch"]


def test_many_writers_leave_a_whole_file(cache):
    threads = [threading.Thread(target=remember, args=(f"key {number}", {"engine": "torch"})) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(recall(f"key {number}") is not None for number in range(20)) == 20
    assert [path.name for path in cache.iterdir()] == ["engines.json"]


def test_the_oldest_choices_are_forgotten(monkeypatch):
    monkeypatch.setattr(remembering, "MOST", 3)
    for number in range(5):
        remember(str(number), {"number": number})
    assert [recall(str(number)) is not None for number in range(5)] == [False, False, True, True, True]


def test_a_cache_folder_that_cannot_be_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("VITRAIL_CACHE", str(tmp_path / "file" / "cache"))
    remember("key", {})
    assert recall("key") is None


def test_where_the_cache_folder_is(monkeypatch, tmp_path):
    monkeypatch.delenv("VITRAIL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "vitrail"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "vitrail"


def test_wrong_names_and_missing_packages(model, monkeypatch):
    with pytest.raises(vt.VitrailError, match=r'unknown engine "openvno".*did you mean "openvino"'):
        make_engine(model, "openvno")
    with pytest.raises(vt.VitrailError, match=r'"onnxruntim".*did you mean "onnxruntime"'):
        vt.pipeline("image-classification", model, engine="onnxruntim")
    with pytest.raises(vt.VitrailError, match="threads must be at least 1, got 0"):
        make_engine(model, "torch", threads=0)
    monkeypatch.setattr(making, "find_spec", lambda name: None)
    monkeypatch.setattr(compiled.shutil, "which", lambda name: None)
    assert making.installed() == ("torch",)
    with pytest.raises(vt.VitrailError, match=r'onnxruntime.*not installed: pip install "vitrail\[onnx\]"'):
        make_engine(model, "onnxruntime")
    with pytest.raises(vt.VitrailError, match=r'openvino.*not installed: pip install "vitrail\[openvino\]"'):
        make_engine(model, "openvino")
    with pytest.raises(vt.VitrailError, match=r"needs a C\+\+ compiler"):
        make_engine(model, "compile")
    assert missing("torch") is None
    assert Automatic(model)(IMAGE).shape == (1, 3)


def test_other_answers_are_refused(model):
    with pytest.raises(vt.VitrailError, match=r"wrong gives other answers than torch for this model: they differ by 0.1"):
        check_answers(model, lambda images: model(images) + 0.1, "wrong")
    with pytest.raises(vt.VitrailError, match="differ by nan"):
        check_answers(model, lambda images: model(images) * float("nan"), "wrong")
    with pytest.raises(vt.VitrailError, match="differ by inf"):
        check_answers(model, lambda images: model(images)[:1], "stuck at one image")
    check_answers(model, model, "right")


def test_other_models_are_refused(model):
    with pytest.raises(vt.VitrailError, match=r"for 32-bit models on the CPU, this one is torch.float64"):
        make_engine(model.double(), "compile")
    with pytest.raises(
        vt.VitrailError,
        match='engine="openvino" is for image-classification, image-segmentation, object-detection; translation',
    ):
        vt.pipeline("translation", "run", engine="openvino")


def test_auto_falls_back_where_the_remembered_engine_refuses_these_weights(race, model, monkeypatch):
    make, _ = race(torch=0.005, openvino=0.0)
    assert choose_engine(model, make=make).engine == "openvino"

    def refuse(model, name, **how):
        raise vt.VitrailError("other answers")

    engine = Automatic(model)
    monkeypatch.setattr(automatic, "make_engine", refuse)
    with torch.inference_mode():
        assert torch.equal(engine(IMAGE), model(IMAGE))
    assert engine.report == [describe(engine.choices[1])]
    assert engine.choices[1].refused == {"openvino": "other answers"}
