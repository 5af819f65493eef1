"""--folds: each fold is a run, the last one is trained on all but test, and an interruption costs nothing that is done."""

import csv
import os
import signal
import statistics

import numpy as np
import pytest
import yaml
from PIL import Image

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.training.interruption import Interrupted
from vitrail.learn.training.state import latest_state, read_progress
from vitrail.run import folds
from vitrail.tasks.classify.objective import Classify
from vitrail.tasks.classify.options import Options

pytestmark = pytest.mark.usefixtures("quick_report")
OPTIONS = {
    "model": "vit_nano_conv",
    "epochs": 2,
    "batch_size": 8,
    "image_size": 8,
    "workers": 0,
    "cache": "off",
    "device": "cpu",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root, generator = tmp_path_factory.mktemp("data") / "few", np.random.default_rng(0)
    for number in range(40):
        values = generator.integers(0, 200, (12, 12, 3), dtype=np.uint8)
        values[: 6 if number % 2 else 3] += 50
        path = root / ("one", "two")[number % 2] / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(values).save(path)
    return root


def train(data, out, **more):
    return vt.train(data=data, out=out, quiet=True, **{"folds": 3, **OPTIONS, **more})


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory, quick_report):
    return train(data, tmp_path_factory.mktemp("runs") / "run")


def names(run):
    with (run / "predictions.csv").open() as file:
        return [row["picture"] for row in csv.DictReader(file)]


def test_every_fold_is_a_run_and_the_last_one_reads_test(whole, data):
    runs = [whole.path / "folds" / str(number) for number in (1, 2, 3)]
    validated = [names(run) for run in runs]
    tested = names(whole.path)
    everyone = sorted(str(path) for path in data.rglob("*.png"))
    assert sorted([*validated[0], *validated[1], *validated[2], *tested]) == everyone, "each image is scored by one of them"
    assert vt.evaluate(runs[1], device="cpu")["accuracy"] == pytest.approx(folds.read_fold(runs[1]).metrics["accuracy"])
    assert vt.evaluate(whole.path, device="cpu")["accuracy"] == pytest.approx(whole.metrics["accuracy"])


def test_the_table_has_mean_and_standard_deviation(whole):
    with (whole.path / "folds.csv").open() as file:
        rows = {row["fold"]: row for row in csv.DictReader(file)}
    values = [float(rows[str(number)]["val_loss"]) for number in (1, 2, 3)]
    assert float(rows["mean"]["val_loss"]) == pytest.approx(statistics.fmean(values))
    assert float(rows["std"]["val_loss"]) == pytest.approx(statistics.stdev(values))


def test_the_last_model_is_trained_for_the_median_epoch_and_its_last_epoch_is_kept(whole):
    best = [folds.read_fold(whole.path / "folds" / str(number)).best_epoch for number in (1, 2, 3)]
    stored = yaml.safe_load((whole.path / "config.yaml").read_text())
    assert (stored["epochs"], stored["folds"]) == (sorted(best)[1], 3)
    assert "fold" not in stored, "the last model is of no one fold"
    progress = read_progress(latest_state(whole.path / "state"))
    assert progress.best["epoch"] == stored["epochs"]
    weights = [(whole.path / name / "model.safetensors").read_bytes() for name in ("best", "last")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("step", [7, 20])
def test_interrupted_and_resumed_it_is_the_same_run(whole, data, tmp_path, monkeypatch, step):
    """In the second fold, and in the last model."""
    plain, calls = Classify.loss, []

    def loss(self, batch):
        calls.append(1)
        if len(calls) == step:
            os.kill(os.getpid(), signal.SIGINT)
        return plain(self, batch)

    monkeypatch.setattr(Classify, "loss", loss)
    with pytest.raises(Interrupted) as stop:
        train(data, tmp_path / "run")
    assert stop.value.where == tmp_path / "run", "this is what the command to go on names"
    before = len(calls)
    again = train(data, tmp_path / "run", resume=True)
    total = sum(len((path / "metrics.jsonl").read_text().splitlines()) for path in [again.path, *again.path.glob("folds/*/")])
    assert len(calls) == total, "no step is taken twice"
    assert before < total
    for name in ("last/model.safetensors", "folds/2/best/model.safetensors", "folds.csv", "predictions.csv", "metrics.json"):
        assert (again.path / name).read_bytes() == (whole.path / name).read_bytes(), name


def test_a_finished_run_is_left_alone(whole, data):
    before = {path: path.stat().st_mtime_ns for path in whole.path.rglob("*") if path.is_file()}
    again = train(data, whole.path, resume=True)
    assert again.metrics == vt.train(out=whole.path, data=data, resume=True, quiet=True).metrics, "without saying --folds again"
    assert {path: path.stat().st_mtime_ns for path in whole.path.rglob("*") if path.is_file()} == before


def test_one_fold_alone_is_the_same_run(whole, data, tmp_path):
    alone = train(data, tmp_path / "two", fold=2)
    assert (alone.path / "best/model.safetensors").read_bytes() == (whole.path / "folds/2/best/model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"val_split": 0.2}, "--folds 3 and --val-split 0.2 are two ways to choose what validates: give one of them"),
        ({"folds": 1}, "--folds must be at least 2, got 1"),
        ({"fold": 4}, "--fold 4 is one of the folds: there are 3"),
        ({"fold": 1, "folds": None}, "--fold 1 is one of the folds: give --folds too"),
        ({"folds": 19}, "--folds 19: the class 'one' of few has only 18 images in train and val; give at most so many folds"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing_behind(data, tmp_path, more, rule):
    with pytest.raises(VitrailError) as error:
        train(data, tmp_path / "run", **more)
    assert str(error.value) == rule
    assert list(tmp_path.iterdir()) == []


def test_other_options_are_refused_on_resuming(whole, data):
    with pytest.raises(VitrailError, match=r"^--folds 4 differs from the run's own \(3\)"):
        train(data, whole.path, folds=4, resume=True)
    with pytest.raises(VitrailError, match=r"^--epochs 9 differs from the folds' own \(2\), whose end cannot be moved$"):
        train(data, whole.path, epochs=9, resume=True)
    with pytest.raises(VitrailError, match=r"^--finish ends one run, and .* has several: give one of those in "):
        train(data, whole.path, resume=True, finish=True)
    with pytest.raises(VitrailError, match="is not empty; a run is never overwritten"):
        train(data, whole.path)


def test_a_run_without_folds_is_not_continued_with_them(data, tmp_path):
    (tmp_path / "config.yaml").write_text(f"data: {data}\n")
    with pytest.raises(VitrailError, match="is a run without --folds, which cannot be continued with --folds 3"):
        train(data, tmp_path, resume=True)


def test_several_processes_are_refused(data, tmp_path, monkeypatch):
    for name, value in {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(VitrailError, match=r"^--folds 3 trains one run after the other: start it without torchrun$"):
        train(data, tmp_path / "run")


def test_a_time_budget_is_shared(data, tmp_path, monkeypatch):
    """Four trainings of two minutes each; the last one is as long as its epochs."""
    seen, given = [], Options(data=str(data), minutes=8.0, folds=3, out=str(tmp_path / "run"))
    monkeypatch.setattr(folds, "run_training", lambda options, **more: seen.append(options.minutes))
    monkeypatch.setattr(folds, "read_fold", lambda folder: folds.Validated(3, {"accuracy": 0.5}))
    monkeypatch.setattr(folds, "read_options", lambda path: given)
    folds.run_folds(given, given=set(), quiet=True)
    assert seen[:3] == [2.0, 2.0, 2.0]
    assert folds.median_epoch([folds.Validated(epoch, {}) for epoch in (9, 2, 5, 4)]) == 4
