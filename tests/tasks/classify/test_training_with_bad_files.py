"""Broken files in a folder: training ends, each is named once, and everything is as if someone had removed them first."""

import csv
import io
import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vitrail as vt

pytestmark = pytest.mark.usefixtures("quick_report")
NANO = ("--model", "vit_nano_conv", "--epochs", 2, "--batch-size", 32, "--image-size", 16)


def write_images(root, count=240):
    """Photographs of two kinds: light above, light below."""
    rng = np.random.default_rng(0)
    for number in range(count):
        kind = ("above", "below")[number % 2]
        values = rng.integers(0, 120, (24, 30, 3), dtype=np.uint8)
        values[:12] += 100 * (kind == "above")
        values[12:] += 100 * (kind == "below")
        path = root / kind / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(values).save(path, quality=92)


def bomb():
    """A PNG of a few hundred bytes that says it has 400 million pixels."""

    def chunk(kind, content):
        return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")

    header = (20_000).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(9))) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same images with 1 % of truncated, junk, empty and bomb files, and of PDF called .jpg; and without them."""
    root = tmp_path_factory.mktemp("sets")
    write_images(root / "clean")
    shutil.copytree(root / "clean", root / "dirty")
    whole = (root / "clean" / "above" / "000.jpg").read_bytes()
    contents = {
        "truncated": whole[: len(whole) // 2],
        "junk": np.random.default_rng(1).bytes(3000),
        "empty": b"",
        "bomb": bomb(),
        "document": b"%PDF-1.7\n" + b"1 0 obj\n" * 100,
    }
    names = []
    for number, (what, content) in enumerate(contents.items()):
        for copy, kind in enumerate(("above", "below")):
            path = root / "dirty" / kind / f"{20 * number + copy:03}x-{what}.jpg"  # among the others, in the order of names
            path.write_bytes(content)
            names.append(path)
    for folder in ("clean", "dirty"):  # a PNG with another name is a good image
        image = Image.open(io.BytesIO(whole))
        image.save(root / folder / "above" / "500.jpg", "PNG")
    return root / "clean", root / "dirty", names


@pytest.fixture(scope="module")
def runs(folders, tmp_path_factory, quick_report):
    root = tmp_path_factory.mktemp("runs")
    options = {"model": "vit_nano_conv", "epochs": 2, "batch": 32, "image_size": 16, "workers": 2, "quiet": True}
    return {
        name: vt.train(data=folder, out=root / name, **options).path
        for name, folder in zip(("clean", "dirty"), folders, strict=False)
    }


def read_list(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_bad_file_is_named_once_with_its_reason(folders, runs):
    rows = read_list(runs["dirty"] / "bad_files.csv")
    assert sorted(row["picture"] for row in rows) == sorted(map(str, folders[2]))
    reasons = {row["picture"].split("-")[-1]: row["reason"] for row in rows}
    assert "pixels" in reasons["bomb.jpg"]
    assert reasons["empty.jpg"] == "an empty file"
    assert "not an image" in reasons["document.jpg"]
    assert not (runs["clean"] / "bad_files.csv").exists()


def test_everything_is_as_on_the_cleaned_set(runs):
    for name in ("metrics.json", "best/model.safetensors", "last/model.safetensors"):
        assert (runs["dirty"] / name).read_bytes() == (runs["clean"] / name).read_bytes(), name
    assert json.loads((runs["clean"] / "metrics.json").read_text())["accuracy"] > 0.8
    rows = [
        [(row["picture"].split("/")[-1], row["truth"]) for row in read_list(runs[name] / "predictions.csv")] for name in runs
    ]
    assert rows[0] == rows[1]


def test_the_command_says_how_many_and_eval_knows_them(command, folders, runs, tmp_path):
    answer = command("train", "--data", folders[1], *NANO, "--out", tmp_path / "run")
    assert answer.code == 0
    line = f"10 images that cannot be read are left out (3.98% of 251): see {tmp_path / 'run' / 'bad_files.csv'}"
    assert answer.out.count(line) == 2, "at the beginning and in the summary"
    assert answer.out.splitlines()[-1].startswith("test accuracy ")
    again = command("eval", tmp_path / "run", "--json")
    assert json.loads(again.out)["accuracy"] == json.loads((tmp_path / "run" / "metrics.json").read_text())["accuracy"]
    other = command("eval", runs["clean"], "--data", folders[1], "--out", tmp_path / "scores")
    assert other.code == 0
    assert len(read_list(tmp_path / "scores" / "bad_files.csv")) == 10
    assert len(read_list(tmp_path / "scores" / "predictions.csv")) == 241


def test_too_many_stop_the_run_before_it_begins(command, folders, tmp_path):
    answer = command("train", "--data", folders[1], *NANO, "--bad-files", 0.03, "--out", tmp_path / "run")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "10 of 251 images (4.0%) cannot be read, more than the 3.0% that --bad-files 0.03 allows" in answer.err
    assert not (tmp_path / "run").exists()
    for wrong in (-0.1, 1.5, "nan"):
        assert command("train", "--data", folders[1], "--bad-files", wrong).code == 2


def test_a_file_that_breaks_while_training_runs_is_left_out_and_listed(folders, tmp_path, monkeypatch, command):
    """And a run that goes on has the data it began with."""
    shutil.copytree(folders[0], tmp_path / "data")
    broken = tmp_path / "data" / "above" / "004.jpg"

    def break_one(*arguments, **options):
        loaders = make(*arguments, **options)
        broken.write_bytes(b"")
        return loaders

    from vitrail.tasks.classify import task

    make = task.class_loaders
    monkeypatch.setattr(task, "class_loaders", break_one)
    run = tmp_path / "run"
    answer = command("train", "--data", tmp_path / "data", *NANO, "--cache", "off", "--workers", 1, "--out", run)
    assert answer.code == 0, answer.err
    rows = read_list(run / "bad_files.csv")
    assert [(row["picture"], row["reason"], row["met"]) for row in rows] == [(str(broken), "an empty file", "during")]
    assert "1 image that cannot be read is left out" in answer.out
    assert command("eval", run).code == 0, "the splits are still those of the run"


def test_a_run_that_goes_on_does_not_look_for_bad_files_again(folders, tmp_path, command):
    """Without a file that broke meanwhile the others would be divided in another way, and learned from would be scored as test."""
    shutil.copytree(folders[0], tmp_path / "data")
    run = tmp_path / "run"
    assert command("train", "--data", tmp_path / "data", *NANO, "--workers", 0, "--out", run).code == 0
    scored = [row["picture"] for row in read_list(run / "predictions.csv")]
    Path(vt.open_data(str(tmp_path / "data"), seed=0)["val"].name(0)).write_bytes(b"")
    assert command("eval", run, "--workers", 0, "--out", tmp_path / "scores").code == 0
    assert [row["picture"] for row in read_list(tmp_path / "scores" / "predictions.csv")] == scored
    (run / "metrics.json").unlink()
    answer = command("train", "--out", run, "--resume")
    assert answer.code == 0, answer.err
    assert [row["picture"] for row in read_list(run / "predictions.csv")] == scored
