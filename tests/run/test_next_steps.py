"""The commands at the end of training run as they are printed, whatever the folders are called."""

import contextlib
import io
import shlex

import numpy as np
import pytest
from PIL import Image

import vitrail as vt
from vitrail.cli.app import run
from vitrail.run.next_steps import EXAMPLE

TINY = ("--model", "vit_nano_conv", "--image-size", 8, "--epochs", 2, "--batch-size", 8, "--workers", 0, "--device", "cpu")


def call(*words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = run([str(word) for word in words])
    assert code == 0, out.getvalue()
    return out.getvalue()


def commands_of(printed):
    """Label -> command."""
    lines = [line.split(None, 1) for line in printed.splitlines() if " vitrail " in line]
    return dict(lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Light and dark images, in a folder with a space and a quote in its name."""
    root, generator = tmp_path_factory.mktemp("next") / "my mother's photos", np.random.default_rng(0)
    for name, level in (("dark ones", 40), ("light", 200)):
        (root / name).mkdir(parents=True)
        for number in range(20):
            pixels = np.clip(generator.normal(level, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"image {number}.png")
    return root


@pytest.fixture(scope="module")
def trained(folder):
    """The run, and what training printed."""
    path = folder.parent / "a run; of mine"
    return path, call("train", "--data", folder, *TINY, "--out", path)


def test_two_blocks_stand_around_the_epochs(trained, folder):
    path, printed = trained
    lines = printed.split("epoch   1/")[0].splitlines()
    assert len(lines) <= 12
    labels = [line[:9].strip() for line in lines]
    assert [label for label in labels if label] == ["data", "note", "weights", "model", "recipe", "folder", "time"]
    assert "\nverdict  " in printed
    assert f"\nreport   {path / 'report.html'}\n" in printed
    assert 'class="meaning"' in (path / "report.html").read_text()


def test_commands_run_as_printed(trained, folder):
    path, printed = trained
    found = commands_of(printed)
    assert set(found) - {"continue"} == {"predict", "explain", "export", "studio"}
    for verb, line in found.items():
        words = shlex.split(line)
        assert words[:3] == [
            "vitrail",
            "train" if verb == "continue" else verb,
            *(["--out"] if verb == "continue" else [str(path)]),
        ]
    file = shlex.split(found["predict"])[3]
    assert file.startswith(str(folder))  # an image of theirs
    assert not (path / EXAMPLE).exists()
    assert file in call(*shlex.split(found["predict"])[1:])


@pytest.mark.slow
@pytest.mark.figures
@pytest.mark.parametrize(("verb", "made"), [("explain", "explained/index.html"), ("export", "export/*")])
def test_the_slower_commands_run_too(trained, verb, made):
    path, printed = trained
    call(*shlex.split(commands_of(printed)[verb])[1:])
    assert list(path.glob(made))


def test_images_in_memory_leave_one_as_a_file(tmp_path):
    data = vt.open_data("digits")
    images, labels = np.stack([np.asarray(data["train"].read(index)) for index in range(60)]), data["train"].labels[:60]
    np.savez(tmp_path / "few.npz", images=images, labels=labels)
    found = commands_of(call("train", "--data", tmp_path / "few.npz", *TINY, "--out", tmp_path / "run"))
    assert shlex.split(found["predict"])[-1] == str(tmp_path / "run" / EXAMPLE)
    call(*shlex.split(found["predict"])[1:])
