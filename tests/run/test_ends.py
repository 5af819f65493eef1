"""`--resume` with another end, `--finish` and `--patience`, as commands: what is printed, refused and written."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from stopping import stop_at

import vitrail as vt
from vitrail.learn.training.ends import End

OPTIONS = {"model": "vit_nano_conv", "batch_size": 32, "recipe": "tiny", "workers": 0, "quiet": True}
SAME = ("best/model.safetensors", "last/model.safetensors", "metrics.jsonl", "predictions.csv", "metrics.json", "config.yaml")


@pytest.fixture(scope="module")
def finished(arrays, tmp_path_factory) -> Path:
    """Two epochs of three steps each."""
    run = tmp_path_factory.mktemp("ends") / "run"
    vt.train(data=arrays, epochs=2, out=run, **OPTIONS)
    return run


@pytest.fixture
def run(finished, tmp_path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


@pytest.fixture
def stopped(command, arrays, tmp_path, monkeypatch) -> Path:
    """By Ctrl-C, in the second of four epochs."""
    words = ("--model", "vit_nano_conv", "--batch-size", 32, "--recipe", "tiny", "--workers", 0)
    with monkeypatch.context() as patch:
        stop_at(patch, 5)
        assert command("train", "--data", arrays, *words, "--epochs", 4, "--out", tmp_path / "run").code == 130
    return tmp_path / "run"


def rates(run: Path) -> list[float]:
    return [json.loads(line)["lr"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def read(run: Path, name: str):
    return yaml.safe_load((run / name).read_text())


def test_one_is_not_several():
    assert [str(End(epochs=9, minutes=minutes)) for minutes in (1.0, 0.5)] == ["1 minute", "0.5 minutes"]
    assert [str(End(epochs=epochs)) for epochs in (1, 2)] == ["1 epoch", "2 epochs"]


def refused(answer) -> str:
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    return answer.err


def test_a_finished_run_is_continued_and_its_first_score_stays(run, finished, command):
    first = read(finished, "metrics.json")
    answer = command("train", "--out", run, "--resume", "--epochs", 4)
    assert (answer.code, answer.err) == (0, "")
    assert "from step 6 on, 2 epochs into the run, it ends at 4 epochs instead of 2 epochs\n" in answer.out
    test, second = answer.out.splitlines()[-2:]
    assert test == f"test accuracy {100 * first['accuracy']:.2f} %"
    metrics = read(run, "metrics.json")
    later = metrics.pop("later_readings")
    assert metrics == first
    assert list(later) == ["second reading of test"]
    assert (later["second reading of test"]["step"], later["second reading of test"]["epoch"]) == (12, 4)
    assert second == f"second reading of test: accuracy {100 * later['second reading of test']['accuracy']:.2f} %"
    config = read(run, "config.yaml")
    assert (config["epochs"], config["ends"]) == (4, [{"epochs": 2}, {"epochs": 4, "from_step": 6}])
    assert rates(run)[:6] == rates(finished)
    assert abs(rates(run)[6] - rates(run)[5]) < 0.5 * max(rates(run))
    page = (run / "report.html").read_text()
    for words in (
        "second reading of test: accuracy",
        "First reading",
        "2 epochs; from step 6 (epoch 2) on 4 epochs",
        "Best epoch",
    ):
        assert words in page, words
    assert "second reading of test" in (run / "best" / "README.md").read_text()

    again = command("train", "--out", run, "--resume")
    assert again.out.splitlines() == [f"{run} is finished", test, second]
    loaded = vt.train(data=config["data"], out=run, resume=True, quiet=True)
    assert loaded.metrics["accuracy"] == first["accuracy"]
    assert loaded.later["second reading of test"]["accuracy"] == later["second reading of test"]["accuracy"]
    assert command("eval", run, "--json").code == 0

    third = command("train", "--out", run, "--resume", "--epochs", 5)
    assert [line.split(":")[0] for line in third.out.splitlines()[-2:]] == ["second reading of test", "third reading of test"]
    assert read(run, "metrics.json")["accuracy"] == first["accuracy"]
    assert [row.get("from_step") for row in read(run, "config.yaml")["ends"]] == [None, 6, 12]


def test_twice_the_same_change_gives_the_same_bits_also_interrupted(run, finished, command, tmp_path, monkeypatch):
    other = shutil.copytree(finished, tmp_path / "other")
    assert command("train", "--out", run, "--resume", "--epochs", 4).code == 0
    with monkeypatch.context() as patch:
        stop_at(patch, 2)
        assert command("train", "--out", other, "--resume", "--epochs", 4).code == 130
    assert read(other, "metrics.json") == read(finished, "metrics.json")
    assert command("train", "--out", other, "--resume").code == 0, "the end that was given is kept"
    for file in SAME:
        assert (run / file).read_bytes() == (other / file).read_bytes(), file


def test_a_config_with_ends_repeats_the_run(run, command, tmp_path):
    assert command("train", "--out", run, "--resume", "--epochs", 3).code == 0
    assert command("train", "--config", run / "config.yaml", "--out", tmp_path / "again").code == 0
    config = read(tmp_path / "again", "config.yaml")
    assert (config["epochs"], "ends" in config) == (3, False)


@pytest.mark.parametrize(
    "words, parts",
    [
        (("--epochs", 1), ("--epochs 1", "has ended 2 epochs", "--finish")),
        (("--minutes", 1e-6), ("--minutes 1e-06", "--finish")),
        (("--epochs", 0), ("--epochs must be at least 1, got 0",)),
        (("--epochs", 3, "--finish"), ("--epochs 3 and --finish",)),
        (("--epochs", 3, "--minutes", 3), ("--minutes and --epochs",)),
        (("--epochs", 3, "--seed", 5), ("--seed 5",)),
        (("--patience", 3), ("--patience 3",)),
    ],
)
def test_an_end_that_cannot_be_is_refused_and_nothing_changes(words, parts, finished, command):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    error = refused(command("train", "--out", finished, "--resume", *words))
    for part in parts:
        assert part in error
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


def test_the_present_end_given_again_changes_nothing(finished, command):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    assert "is finished" in command("train", "--out", finished, "--resume", "--epochs", 2).out
    assert "is finished" in command("train", "--out", finished, "--resume", "--finish").out
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


def test_a_nearer_end_of_a_stopped_run(stopped, command):
    answer = command("train", "--out", stopped, "--resume", "--epochs", 2)
    assert answer.code == 0
    assert "from step 5 on, 1.6667 epochs into the run, it ends at 2 epochs instead of 4 epochs\n" in answer.out
    assert len(rates(stopped)) == 6
    assert answer.out.splitlines()[-1].startswith("test accuracy ")
    assert "later_readings" not in read(stopped, "metrics.json")


def test_stopped_and_finished_is_a_whole_run(stopped, command):
    answer = command("train", "--out", stopped, "--resume", "--finish")
    assert (answer.code, answer.err) == (0, "")
    assert len(rates(stopped)) == 5, "no step was taken"
    assert answer.out.splitlines()[-1].startswith("test accuracy ")
    assert "best/ is epoch " in answer.out
    for name in ("metrics.json", "report.html", "predictions.csv", "best/README.md"):
        assert (stopped / name).is_file(), name
    assert read(stopped, "config.yaml")["ends"] == [{"epochs": 4}, {"stopped_by": "finish", "at_step": 5}]
    assert "ended by --finish" in (stopped / "report.html").read_text()
    assert "is finished" in command("train", "--out", stopped, "--resume").out
    answer = command("train", "--out", stopped, "--resume", "--epochs", 5)
    assert answer.out.splitlines()[-1].startswith("second reading of test: accuracy ")


def test_finish_needs_a_run(command, tmp_path):
    assert "--finish" in refused(command("train", "--data", "digits", "--finish", "--out", tmp_path / "x"))
    assert "is no folder of a run" in refused(
        command("train", "--data", "digits", "--resume", "--finish", "--out", tmp_path / "x")
    )
    assert not (tmp_path / "x").exists()


def test_patience_ends_a_run_and_is_recorded(command, arrays, tmp_path):
    words = (
        "--model",
        "vit_nano_patch2_32",
        "--batch-size",
        48,
        "--recipe",
        "plain",
        "--lr",
        1e-12,
        "--epochs",
        9,
        "--patience",
        2,
    )
    answer = command("train", "--data", arrays, *words, "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert (
        "stopped by --patience 2 after epoch 3: 2 epochs without a higher validation score, the highest was epoch 1's\n"
        in answer.out
    )
    config = read(tmp_path / "run", "config.yaml")
    assert (config["patience"], config["ends"]) == (2, [{"epochs": 9}, {"stopped_by": "patience", "at_step": 6}])
    assert "stopped by --patience" in (tmp_path / "run" / "report.html").read_text()
    assert "is finished" in command("train", "--out", tmp_path / "run", "--resume").out
    assert "--patience must be at least 1, got 0" in refused(command("train", "--data", arrays, "--patience", 0))


@pytest.mark.slow
def test_two_processes_end_alike(arrays, environment, tmp_path):
    """Patience, another end, Ctrl-C's `--finish`: were one of them to decide otherwise, it would wait for the other without end."""
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "vitrail",
        "train",
    ]
    words = ["--data", str(arrays), "--model", "vit_nano_patch2_32", "--batch-size", "24", "--recipe", "plain", "--lr", "1e-12"]
    words += ["--epochs", "9", "--patience", "2", "--device", "cpu"]

    def run(*more: str) -> str:
        line = [*launcher, "--out", str(tmp_path / "run"), *more]
        done = subprocess.run(line, capture_output=True, text=True, timeout=500, env=environment, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    assert run(*words).count("stopped by --patience 2 after epoch 3") == 1
    first = read(tmp_path / "run", "metrics.json")["accuracy"]
    out = run("--resume", "--epochs", "4")
    assert out.count("it ends at 4 epochs instead of 9 epochs") == 1
    assert out.splitlines()[-1].startswith("second reading of test: accuracy ")
    assert read(tmp_path / "run", "metrics.json")["accuracy"] == first
    assert "is finished" in run("--resume", "--finish")
