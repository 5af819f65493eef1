"""Runs and curves, while they train."""

import json
import os
import time

import pytest

from vitrail.deploy.studio import runs as runs_module
from vitrail.run.runs import figures_of

COLUMNS = "epoch,train_loss,val_loss,val_accuracy,lr,seconds\n"


@pytest.fixture
def training(tmp_path, make_run, browse_studio):
    """A run that began just now, and a browser."""
    run = make_run(tmp_path / "now", finished=False)
    (run / "results.csv").unlink()
    return run, browse_studio(tmp_path)


def test_a_curve_grows_with_its_run(training):
    run, client = training
    [entry] = client.get("/api/runs").json()["runs"]
    assert (entry["name"], entry["state"], entry["epochs"], entry["of"], entry["score"]) == ("now", "training", 0, 3, None)
    address = f"/api/runs/{entry['id']}/curve"
    assert client.get(address).json() == {"rows": [], "state": "training"}
    (run / "results.csv").write_text(COLUMNS + "1,2.123456,1.5,0.5,0.001,30\n")
    first = {"epoch": 1, "train_loss": 2.1235, "val_loss": 1.5, "val_accuracy": 0.5, "lr": 0.001, "seconds": 30}
    assert client.get(address).json()["rows"] == [first]
    with (run / "results.csv").open("a") as file:
        file.write("2,nan,inf,0.75,0.001,90\n")
    [second] = client.get(address, params={"since": 1}).json()["rows"]
    assert (second["epoch"], second["train_loss"], second["val_loss"], second["val_accuracy"]) == (2, None, None, 0.75)
    [entry] = client.get("/api/runs").json()["runs"]
    assert (entry["epochs"], entry["minutes"], entry["score"]) == (2, 1.5, "validation accuracy 75.00 %")
    assert entry["updated"] == int((run / "results.csv").stat().st_mtime)
    (run / "metrics.json").write_text(json.dumps({"accuracy": 0.5}))
    assert client.get(address, params={"since": 2}).json() == {"rows": [], "state": "finished"}
    assert client.get("/api/runs").json()["runs"][0]["score"] == "test accuracy 50.00 %"


def test_a_silent_run_has_stopped(training):
    run, client = training
    for path in run.iterdir():
        os.utime(path, (time.time() - 400,) * 2)
    assert client.get("/api/runs").json()["runs"][0]["state"] == "stopped"


def test_a_run_appears_when_it_begins(training, make_run, tmp_path):
    _, client = training
    make_run(tmp_path / "later")
    assert {run["name"] for run in client.get("/api/runs").json()["runs"]} == {"now", "later"}
    assert {model["name"] for model in client.get("/api/models").json()} == {"now", "later"}


@pytest.mark.parametrize(
    "text",
    ["", "epoch\n", "epoch,train_loss\nx,y\n", "epoch,train_loss\n1", "\0\0", "epoch,train_loss\n1,2,3,4\n", "train_loss\n3\n"],
)
def test_a_broken_table_is_only_not_shown(training, text):
    run, client = training
    (run / "results.csv").write_text(text)
    (run / "metrics.json").write_text("{")
    (run / "config.yaml").write_text("a: [")
    [entry] = client.get("/api/runs").json()["runs"]
    assert client.get(f"/api/runs/{entry['id']}/curve").status_code == 200


def test_two_runs_of_one_name_are_distinguished(tmp_path, make_run, browse_studio):
    make_run(tmp_path / "a" / "digits")
    make_run(tmp_path / "b" / "digits")
    client = browse_studio(tmp_path)
    assert sorted(model["name"] for model in client.get("/api/models").json()) == ["a/digits", "b/digits"]
    assert sorted(run["name"] for run in client.get("/api/runs").json()["runs"]) == ["a/digits", "b/digits"]


def test_the_score_is_the_line_that_training_ends_with(tmp_path):
    from vitrail.tasks.classify.metrics import METRICS
    from vitrail.tasks.metric import headline

    for metrics in ({"accuracy": 0.98611, "loss": 1.0}, {"map": 0.5, "f1_micro": 0.1}):
        (tmp_path / "metrics.json").write_text(json.dumps(metrics))
        assert runs_module.describe_score(tmp_path, figures_of) == headline(METRICS, "test", metrics)


@pytest.mark.parametrize("task, column", [("translate", "val_bleu"), ("language", "val_perplexity")])
def test_curves_of_text_have_their_score(training, task, column):
    run, client = training
    (run / "config.yaml").write_text(f"task: {task}\n")
    (run / "results.csv").write_text(f"epoch,train_loss,val_loss,{column},val_other,lr,seconds\n1,2.0,1.5,0.25,4.5,0.001,30\n")
    [entry] = client.get("/api/runs").json()["runs"]
    [row] = client.get(f"/api/runs/{entry['id']}/curve").json()["rows"]
    assert row[column] == 0.25
    assert "val_other" not in row
