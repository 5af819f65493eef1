"""A complete task in one folder, registered by one line: it trains, resumes bit for bit, is evaluated, listed and described."""

import csv
import json
from pathlib import Path

import pytest

import vitrail as vt
from vitrail.tasks import registry
from vitrail.tasks.task import name_count

TOY = Path(__file__).parent / "toy"
OPTIONS = {"task": "count", "data": "shapes", "epochs": 3, "images": 48, "image_size": 16, "seed": 3, "quiet": True}


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    monkeypatch.syspath_prepend(str(TOY))
    monkeypatch.setitem(
        registry.TASKS, "count", registry.Entry("a toy: count the objects in an image", home="count")
    )  # the line


def test_it_is_short():
    assert sum(len(path.read_text().splitlines()) for path in (TOY / "count").rglob("*.*") if path.suffix != ".pyc") < 250


@pytest.mark.figures
def test_it_trains_and_is_evaluated_on_the_command_line(command, tmp_path):
    run = tmp_path / "run"
    answer = command(
        "train", "--task", "count", "--data", "shapes", "--images", 48, "--epochs", 2, "--image-size", 16, "--out", run
    )
    assert (answer.code, answer.err) == (0, "")
    metrics = json.loads((run / "metrics.json").read_text())
    assert answer.out.splitlines()[-1] == f"test error {metrics['mae']:.2f}"
    assert "val error" in answer.out
    assert len(list(csv.DictReader((run / "predictions.csv").open()))) == 16
    page = (run / "report.html").read_text()
    for words in ("Mean absolute error", "Validation error", f"vitrail train --out {run} --resume", "images"):
        assert words in page
    found = json.loads(command("eval", run, "--json").out)
    assert found == {"split": "test", "loss": metrics["loss"], "mae": metrics["mae"]}
    assert "Mean absolute error" in (run / "best" / "README.md").read_text()
    assert f"{metrics['mae']:.2f}" in command("runs", run).out


def test_the_lowest_error_is_the_best_epoch(tmp_path):
    run = vt.train(**{**OPTIONS, "epochs": 4}, lr=3e-2, out=tmp_path / "run")
    rows = list(csv.DictReader((run.path / "results.csv").open()))
    best = min(rows, key=lambda row: float(row["val_mae"]))
    state = json.loads(next((run.path / "state").glob("*/state.json")).read_text())
    assert state["best"]["mae"] == pytest.approx(float(best["val_mae"]), rel=1e-6)


def test_its_options_are_its_own(command):
    answer = command("train", "--task", "count", "--help")
    assert answer.code == 0
    assert "--images" in answer.out
    assert "--label-smoothing" not in answer.out
    refused = command("train", "--data", "digits", "--images", 48)
    assert (refused.code, refused.err) == (2, "vitrail: --images is an option of --task count only\n")
    refused = command("train", "--task", "count", "--data", "shapes", "--label-smoothing", 0.1)
    assert refused.code == 2
    assert "--label-smoothing is an option of --task classify" in refused.err
    assert (
        command("train", "--task", "count", "--data", "shapes", "--images", 3)
        .err.strip()
        .endswith("--images must be at least 10, got 3")
    )


def test_no_other_file_knows_it():
    source = Path(vt.__file__).parent
    assert not [path for path in source.rglob("*.py") if "count.task" in path.read_text() or "Count()" in path.read_text()]


@pytest.mark.parametrize("count, text", [(1, "1 epoch"), (30, "30 epochs"), (0.5, "0.5 epochs")])
def test_one_epoch_is_no_epochs(count, text):
    assert name_count(count, "epoch") == text
