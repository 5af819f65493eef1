"""A run of any task: its files, its score, interrupted, repeated, by two processes, with a file that cannot be read."""

import csv
import json
import math
import signal
from dataclasses import fields

import pytest
import yaml

import vitrail as vt
from vitrail.tasks import registry
from vitrail.tasks.metric import headline

WEIGHTS = ("last/model.safetensors", "best/model.safetensors")
FILES = (
    "config.yaml",
    "machine.yaml",
    "metrics.json",
    "metrics.jsonl",
    "report.html",
    "results.csv",
    *WEIGHTS,
    "best/README.md",
)
SAME = (*WEIGHTS, "metrics.json", "metrics.jsonl")


def rows_of(run):
    """results.csv without the column of seconds."""
    with (run / "results.csv").open() as file:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def predictions_of(run):
    return {path.name: path.read_bytes() for path in sorted(run.glob("predictions*"))}


def assert_same(one, other):
    for name in SAME:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert rows_of(one) == rows_of(other)
    assert predictions_of(one) == predictions_of(other)


def test_a_run_has_its_files_and_ends_with_its_score(trained, vitrail):
    assert trained.answer.err == ""
    assert [name for name in FILES if not (trained.path / name).is_file()] == []
    assert (trained.path / "state").is_dir()
    assert not (trained.path / "bad_files.csv").exists()
    known = registry.metrics_of(trained.task)
    assert trained.answer.headline == headline(known, trained.metrics["split"], trained.measured)
    assert trained.measured
    assert all(math.isfinite(value) for value in trained.measured.values())
    options = yaml.safe_load((trained.path / "config.yaml").read_text())
    assert options["task"] == trained.task
    assert {name for name, value in options.items() if value == "auto"} == set(trained.example.still_auto)
    rows = rows_of(trained.path)
    assert [row["epoch"] for row in rows] == [str(number + 1) for number in range(options["epochs"])]
    steps = [json.loads(line) for line in (trained.path / "metrics.jsonl").read_text().splitlines()]
    assert {row["epoch"] for row in steps} == set(range(options["epochs"]))
    model = vt.load(trained.path)
    assert trained.entry.architectures == () or model.architecture in trained.entry.architectures
    first = next(metric for metric in known if metric.key in trained.measured)
    assert first.format(trained.measured[first.key]) in vitrail("runs", trained.path).out


def test_interrupted_and_resumed_it_is_the_same_run(trained, vitrail, tmp_path, monkeypatch):
    """SIGINT in the middle of the second epoch."""
    steps = [json.loads(line)["epoch"] for line in (trained.path / "metrics.jsonl").read_text().splitlines()]
    last, calls = len(steps) - max(1, steps.count(1) // 2), []
    assert steps.count(1) >= 2
    kind = type(registry.find(trained.task))
    plain = kind.objective

    def objective(self, setup, **how):
        found = plain(self, setup, **how)
        loss = found.loss

        def counted(batch):
            calls.append(1)
            if len(calls) == last:
                signal.raise_signal(signal.SIGINT)
            return loss(batch)

        found.loss = counted
        return found

    words = trained.words(out=tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(kind, "objective", objective)
        stopped = vitrail(*words)
    assert stopped.code == 130
    assert not (tmp_path / "run" / "metrics.json").exists()
    assert len(calls) == last
    resumed = vitrail("train", "--out", tmp_path / "run", "--resume")  # its options are stored
    assert (resumed.code, resumed.err) == (0, "")
    assert resumed.headline == trained.answer.headline
    assert_same(tmp_path / "run", trained.path)


def test_a_finished_run_is_neither_trained_again_nor_overwritten(copied, vitrail):
    before = {path: path.stat().st_mtime_ns for path in copied.path.rglob("*")}
    answer = vitrail(*copied.words(out=copied.path), "--resume")
    assert (answer.code, answer.err) == (0, "")
    assert str(copied.path) in vitrail(*copied.words(out=copied.path)).refused()
    other = vitrail(*copied.words("--seed", 77, out=copied.path), "--resume").refused()
    assert "seed" in other
    assert "77" in other
    assert {path: path.stat().st_mtime_ns for path in copied.path.rglob("*")} == before


def test_its_config_repeats_it(trained, vitrail, tmp_path):
    answer = vitrail("train", "--config", trained.path / "config.yaml", "--out", tmp_path / "run")
    assert (answer.code, answer.err) == (0, "")
    assert answer.headline == trained.answer.headline
    assert_same(tmp_path / "run", trained.path)
    one, other = (yaml.safe_load((run / "config.yaml").read_text()) for run in (trained.path, tmp_path / "run"))
    assert {**one, "cache_gb": None} == {**other, "cache_gb": None}  # a share of the memory that is free


def test_two_processes_train_one_model(trained, two_processes, vitrail, tmp_path):
    first, second = two_processes(*trained.words(out=tmp_path / "run"))
    assert (first.code, second.code) == (0, 0), first.out + second.out
    assert ("epoch   1/" in first.out, "epoch   1/" in second.out) == (True, False)  # only the first one speaks
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics.keys() == trained.metrics.keys()
    again = json.loads(vitrail("eval", tmp_path / "run", "--split", metrics["split"], "--json").out)
    for key in again.keys() - {"split"}:  # every sample was scored once, by one of the two
        assert metrics[key] == pytest.approx(again[key], rel=1e-4, abs=1e-5), key
    steps, alone = (len((run / "metrics.jsonl").read_text().splitlines()) for run in (tmp_path / "run", trained.path))
    assert steps <= alone


def test_a_file_that_cannot_be_read_is_listed_or_refused(trained, vitrail, tmp_path):
    if trained.example.broken is None:
        pytest.skip(f"{trained.example.data}: no files to break")
    options = [trained.example.broken if word == trained.example.data else word for word in trained.options]
    answer = vitrail("train", *options, "--out", tmp_path / "run")
    if answer.code == 0:
        with (tmp_path / "run" / "bad_files.csv").open() as file:
            (row,) = csv.DictReader(file)
        assert row["reason"]
        assert (tmp_path / "run" / "bad_files.csv").as_posix() in answer.out
        limit = (
            ("--bad-files", 0.5)
            if "bad_files" in {field.name for field in fields(registry.options_of(trained.task, "eval"))}
            else ()
        )
        again = vitrail("eval", tmp_path / "run", "--json", *limit)
        assert again.code == 0, again.err
    else:
        assert trained.example.broken in answer.refused()
        assert not (tmp_path / "run").exists()


def test_the_card_says_what_it_is_and_how_good(trained):
    text = (trained.path / "best" / "README.md").read_text()
    head, _, body = text.removeprefix("---\n").partition("\n---\n")
    facts = yaml.safe_load(head)
    assert facts["library_name"] == "vitrail"
    known = {metric.key: metric for metric in registry.metrics_of(trained.task)}
    (result,) = facts["model-index"][0]["results"]
    assert result["dataset"]["split"] == trained.metrics["split"]
    for figure in result["metrics"]:
        metric, value = known[figure["type"]], trained.metrics[figure["type"]]
        assert figure["value"] in (pytest.approx(value, abs=1e-5), pytest.approx(metric.scaled(value), abs=1e-5)), figure
        assert figure["name"] == metric.title
    first = next(metric for metric in known.values() if metric.key in trained.measured)
    assert f"{first.title} on {trained.metrics['split']}: **{first.format(trained.measured[first.key])}**" in body
    for title in ("## How to use it", "## Training", "## Scores", "## Limits"):
        assert title in body, title
    assert str(trained.path) not in text  # cards are published
