"""`vitrail export`: what it checks on, where it writes, what it says; and one line for what it cannot do."""

import importlib

import numpy as np
import pytest
import safetensors
import torch
import yaml
from PIL import Image

import vitrail as vt
from vitrail.deploy.export import examples
from vitrail.deploy.export.examples import find_prepared
from vitrail.preprocessing import Preprocessing
from vitrail.run.stored import training_options
from vitrail.tasks.classify.options import Options
from vitrail.tasks.options import to_store

NANO = {"width": 24, "heads": 2, "depth": 1, "image_size": 8, "in_channels": 1, "patch": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What training on the digits leaves behind, as far as export reads it."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    torch.manual_seed(0)
    vt.save(vt.create_model("vit_nano_patch2_32", **NANO), folder / "best")
    (folder / "config.yaml").write_text(yaml.safe_dump(to_store(Options(data="digits", seed=3))))
    return folder


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text") / "model"
    vt.save(vt.create_model("transformer_tiny", vocabulary=20), folder)
    return folder


@pytest.mark.compiled
def test_a_run_becomes_a_file_beside_it(run, command):
    answer = command("export", run, "--format", "pt2", "--check", 5)
    assert (answer.code, answer.err) == (0, "")
    file, parity, takes, *lines = answer.out.splitlines()
    assert file.startswith(f"{run / 'export' / 'digits.pt2'}: ")
    assert parity.startswith("differs by at most ")
    assert parity.endswith(" on 5 images of 8x8 and 12x6, in batches of 1, 3, 1, 3 (digits)")
    assert takes == "takes any number of images of any size (sides: multiples of 2, from 4); 8x8 is what images are brought to"
    assert "without vitrail" in lines[0]
    images, names = torch.randn(2, 1, 8, 8), {}
    exec("\n".join(lines[1:]), {"images": images}, names)  # our own lines
    torch.testing.assert_close(names["answer"], vt.load(run)(images))


def test_weights_alone_say_what_they_are_for(run, command, tmp_path):
    answer = command("export", run, "--format", "safetensors", "--out", tmp_path / "weights")
    assert answer.code == 0, answer.err
    with safetensors.safe_open(tmp_path / "weights.safetensors", "pt") as file:
        assert set(file.keys()) == set(vt.load(run).state_dict())
        assert '"size": [8, 8]' in file.metadata()["preprocessing"]
        assert file.metadata()["architecture"] == '"vit"'


def test_images_to_check_on(run, tmp_path, monkeypatch):
    """Named ones; the run's own validation split, divided as it was; else built-in ones."""
    trained = training_options(str(run))
    gray = Preprocessing(size=(8, 8), channels=1, mean=(0.5,), std=(0.5,))
    for number in range(3):
        Image.fromarray(np.full((9, 12), 100 * number, np.uint8)).save(tmp_path / f"{number}.png")
    named = find_prepared(gray, data=str(tmp_path), trained=trained, count=16)
    assert named.source == str(tmp_path)
    assert [round(float(image.mean()), 2) for image in named.images] == [-1.0, -0.22, 0.57]
    seeds = []
    monkeypatch.setattr(examples, "open_data", lambda source, seed: seeds.append((source, seed)) or vt_digits())
    assert find_prepared(gray, data=None, trained=trained, count=4).images.shape == (4, 1, 8, 8)
    assert find_prepared(gray, data=None, trained=training_options(str(run / "best")), count=4).source == "digits"
    assert seeds == [("digits", 3), ("digits", 3)]
    four = Preprocessing(size=(8, 6), channels=4, mean=(0.5,) * 4, std=(0.5,) * 4)
    noise = find_prepared(four, data=None, trained=trained, count=2)
    assert (tuple(noise.images.shape), noise.source.split(":")[0]) == ((2, 4, 8, 6), "noise")


def vt_digits():
    from vitrail.data.opening import open_data

    return open_data("digits", seed=3)


@pytest.mark.parametrize(
    "words, message",
    [
        (("--format", "onxx"), 'unknown format "onxx": choose from onnx, openvino, pt2, safetensors, timm, transformers; did you mean "onnx"?'),
        (("--format", "pt2", "--opset", "20"), "--opset 20 is for --format onnx, not for pt2"),
        (("--format", "onnx", "--opset", "9"), "--opset must be from 18 to 23, got 9"),
        (("--format", "onnx", "--check", "-1"), "--check must be at least 0, got -1"),
        (("--format", "onnx", "--image-size", "9"), "--image-size: the sides must be multiples of 2, got 9x9"),
        (("--format", "onnx", "--image-size", "1", "2", "3"), "--image-size takes N, or H W, of at least 1, got 1 2 3"),
        (("--format", "pt2", "--data", "no/such"), "no/such: no such file, folder or match"),
        (("--formt", "onnx"), "--format"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)  # fmt: skip
def test_wrong_words_are_one_line(run, command, words, message):
    answer = command("export", run, *words)
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert answer.out == ""


def test_other_kinds_are_refused_by_name(run, sentences, command, tmp_path):
    answer = command("export", sentences, "--format", "onnx")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "a model of the kind transformer takes text; only models of images and volumes are exported" in answer.err
    vt.save(vt.create_model("swin_nano_patch2_window4_32", depths=(1,)), tmp_path / "swin")
    answer = command("export", tmp_path / "swin", "--format", "pt2", "--dynamic-size", "on")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "a model of the kind swin is exported for one size: how the grid is padded" in answer.err


@pytest.mark.parametrize("format, module", [("onnx", "onnxscript"), ("openvino", "openvino")])
def test_a_missing_extra_gives_the_pip_command(run, command, format, module, monkeypatch):
    real = importlib.import_module

    def without(name, *rest):
        if name == module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr("vitrail.extras.importlib.import_module", without)
    answer = command("export", run, "--format", format)
    assert (answer.code, answer.err) == (2, f'vitrail: "{module}" is not installed: pip install "vitrail[{format}]"\n')
