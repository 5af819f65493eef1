"""A run that was stopped and goes on ends as if nothing had happened, bit for bit."""

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from stopping import stop_at

import vitrail as vt
from vitrail.data import image_source as job
from vitrail.data.loader import Loader
from vitrail.errors import VitrailError
from vitrail.learn.training.state import NUMBERS, TENSORS, Progress, latest_state, load_state, read_progress, save_state

pytestmark = pytest.mark.usefixtures("quick_report")
# 96 images: 6 steps an epoch. The recipe moves images about; stochastic depth draws from torch's own generator.
OPTIONS = ("--model", "vit_nano_conv", "--batch-size", "16", "--recipe", "tiny", "--drop-path", "0.4", "--seed", "7")
SAME = ("best/model.safetensors", "last/model.safetensors", "metrics.jsonl", "predictions.csv", "metrics.json")


@pytest.fixture(scope="module")
def uninterrupted(arrays, quick_report, tmp_path_factory) -> Path:
    """Two epochs in one go."""
    run = tmp_path_factory.mktemp("whole") / "run"
    vt.train(data=arrays, model="vit_nano_conv", batch=16, recipe="tiny", drop_path=0.4, seed=7, epochs=2, workers=0, out=run,
             quiet=True)  # fmt: skip
    return run


def rows(run: Path) -> list[dict[str, str]]:
    """results.csv without the only column that may differ."""
    found = list(csv.DictReader((run / "results.csv").read_text().splitlines()))
    return [{name: value for name, value in row.items() if name != "seconds"} for row in found]


def assert_same_run(one: Path, other: Path) -> None:
    for file in SAME:
        assert (one / file).read_bytes() == (other / file).read_bytes(), file
    assert rows(one) == rows(other)
    states = [load_file(latest_state(run / "state") / TENSORS) for run in (one, other)]
    assert states[0].keys() == states[1].keys()
    assert all(states[0][name].equal(states[1][name]) for name in states[0])


def start(command, arrays, run, *words):
    return command("train", "--data", arrays, *OPTIONS, "--epochs", 2, "--workers", 0, "--out", run, *words)


@pytest.mark.parametrize("step", [1, 6, 8, 12])
def test_stopped_within_an_epoch(step, command, arrays, uninterrupted, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, step)
        answer = start(command, arrays, tmp_path / "my run")
    assert answer.code == 130
    assert re.fullmatch(
        r"stopped by SIGINT; everything is saved: vitrail train --out '\S+ run' --resume continues it\n", answer.err
    )
    assert len((tmp_path / "my run" / "metrics.jsonl").read_text().splitlines()) == step
    assert command("train", "--out", tmp_path / "my run", "--resume").code == 0
    assert_same_run(tmp_path / "my run", uninterrupted)


def test_stopped_while_validating_by_sigterm(command, arrays, uninterrupted, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 1, by=lambda: signal.raise_signal(signal.SIGTERM), validating=True)
        answer = start(command, arrays, tmp_path / "run")
    assert answer.code == 143
    assert "SIGTERM" in answer.err
    assert len(rows(tmp_path / "run")) == 1, "the epoch is finished first"
    assert start(command, arrays, tmp_path / "run", "--resume").code == 0, "the same options may be given again"
    assert_same_run(tmp_path / "run", uninterrupted)


def test_signals_are_given_back_after_training(command, arrays, tmp_path, monkeypatch):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patch:
        stop_at(patch, 1)
        assert start(command, arrays, tmp_path / "run").code == 130
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_second_ctrl_c_stops_at_once(command, arrays, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 2)
        stopping = job.Loader

        class Impatient(stopping):
            def batches(self, epoch=0, start=0):
                for number, batch in enumerate(super().batches(epoch, start)):
                    if number == 1:
                        signal.raise_signal(signal.SIGINT)
                    yield batch

        patch.setattr(job, "Loader", Impatient)
        answer = start(command, arrays, tmp_path / "run")
    assert (answer.code, answer.err) == (130, "stopped\n")
    assert read_progress(latest_state(tmp_path / "run" / "state")).step == 0, "the state before the first step is kept"


def test_workers_change_nothing(command, arrays, uninterrupted, tmp_path, monkeypatch):
    words = ("train", "--data", arrays, *OPTIONS, "--epochs", 2, "--workers", 2, "--out", tmp_path / "run")
    with monkeypatch.context() as patch:
        stop_at(patch, 8)
        assert command(*words).code == 130
    assert command(*words, "--resume").code == 0
    assert_same_run(tmp_path / "run", uninterrupted)


class Crash(BaseException):
    """Nothing catches it, so nothing is saved: on disk the same as kill -9."""


class Crashing(Loader):
    def batches(self, epoch=0, start=0):
        for number, batch in enumerate(super().batches(epoch, start)):
            if self.order.shuffle and (epoch, number) == (1, 3):
                raise Crash
            yield batch


def crash(command, arrays, run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(job, "Loader", Crashing)
        with pytest.raises(Crash):
            start(command, arrays, run)


def test_crashed_between_two_checkpoints(command, arrays, uninterrupted, tmp_path, monkeypatch):
    crash(command, arrays, tmp_path / "run", monkeypatch)
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 7, "epoch": 1, "loss": 1.0}\n{"step": 8, "ep')  # written, but not part of a checkpoint
    assert command("train", "--out", tmp_path / "run", "--resume").code == 0
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_long_epoch_has_checkpoints_of_its_own(command, arrays, uninterrupted, tmp_path, monkeypatch):
    monkeypatch.setattr("vitrail.learn.training.loop.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    crash(command, arrays, tmp_path / "run", monkeypatch)
    assert latest_state(tmp_path / "run" / "state").name == "step-000000009"
    assert command("train", "--out", tmp_path / "run", "--resume").code == 0
    assert_same_run(tmp_path / "run", uninterrupted)


class Processes:
    """`vitrail train` in processes that are sent signals once they have said something."""

    def __init__(self, arrays, environment, folder: Path, *, epochs: int) -> None:
        self.environment, self.run, self.whole = environment, folder / "run", folder / "whole"
        self.options = {
            "data": str(arrays),
            "model": "vit_nano_conv",
            "batch": 16,
            "epochs": epochs,
            "drop_path": 0.4,
            "seed": 7,
        }

    def stop(self, after: str, number: int, *words: str) -> tuple[int, str]:
        """The exit code and stderr of a process that was sent signal `number` after a line that begins with `after`.

        The signal goes to the whole group, workers included, as from a terminal or a job scheduler.
        """
        options = [f"{name}={value}" for name, value in self.options.items()]
        line = [sys.executable, "-m", "vitrail", "train", *options, "--out", str(self.run), *words]
        with subprocess.Popen(line, env=self.environment, stdout=-1, stderr=-1, text=True, start_new_session=True) as process:
            next(said for said in process.stdout if said.startswith(after))
            os.killpg(process.pid, number)
            _, err = process.communicate(timeout=60)
        return process.returncode, err

    def train_whole(self) -> Path:
        return vt.train(**self.options, out=self.whole, quiet=True).path


def test_a_process_stopped_by_ctrl_c(command, arrays, environment, tmp_path):
    processes = Processes(arrays, environment, tmp_path, epochs=8)
    code, err = processes.stop("epoch   1/8", signal.SIGINT, "--workers", "2")
    assert code == 130
    assert err == f"stopped by SIGINT; everything is saved: vitrail train --out {processes.run} --resume continues it\n"
    assert command("train", "--out", processes.run, "--resume").code == 0
    assert_same_run(processes.run, processes.train_whole())


@pytest.mark.slow
def test_processes_terminated_and_killed(command, arrays, environment, tmp_path):
    processes = Processes(arrays, environment, tmp_path, epochs=16)
    assert processes.stop("epoch   1/16", signal.SIGTERM, "--workers", "2")[0] == 143
    assert processes.stop("epoch   5/16", signal.SIGKILL, "--resume") == (-signal.SIGKILL, "")
    assert not (processes.run / "metrics.json").exists()
    assert command("train", "--out", processes.run, "--resume").code == 0
    assert_same_run(processes.run, processes.train_whole())


# ------------------------------------------------------------------------------------------------- what --resume decides


def test_resume_of_a_finished_run_does_nothing(command, uninterrupted):
    before = {path: path.stat().st_mtime_ns for path in uninterrupted.rglob("*")}
    answer = command("train", "--out", uninterrupted, "--resume")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines()[-1].startswith("test accuracy ")
    assert {path: path.stat().st_mtime_ns for path in uninterrupted.rglob("*")} == before


@pytest.mark.parametrize("there", [False, True], ids=["no folder", "an empty folder"])
def test_resume_starts_where_nothing_is(there, command, arrays, uninterrupted, tmp_path):
    if there:
        (tmp_path / "run").mkdir()
    assert start(command, arrays, tmp_path / "run", "--resume").code == 0
    assert_same_run(tmp_path / "run", uninterrupted)


def test_resume_starts_anew_without_a_complete_checkpoint(command, uninterrupted, tmp_path):
    run = tmp_path / "run"
    (run / "state" / ".writing").mkdir(parents=True)
    shutil.copy(uninterrupted / "config.yaml", run)
    (run / "metrics.jsonl").write_text('{"step": 1, "epoch": 0}\n{"st')  # the end of a line was never written
    assert command("train", "--out", run, "--resume").code == 0
    assert_same_run(run, uninterrupted)


def test_resume_finishes_a_run_that_was_stopped_before_its_score(command, uninterrupted, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    for name in ("metrics.json", "predictions.csv", "report.html"):
        (run / name).unlink()
    assert command("train", "--out", run, "--resume").code == 0
    assert (run / "report.html").is_file()
    assert_same_run(run, uninterrupted)


def test_the_best_weights_are_scored_whatever_the_last_are(command, uninterrupted, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    (run / "metrics.json").unlink()
    last = run / "last" / "model.safetensors"
    save_file({name: torch.zeros_like(weight) for name, weight in load_file(last).items()}, last)
    assert command("train", "--out", run, "--resume").code == 0
    for name in ("predictions.csv", "metrics.json"):
        assert (run / name).read_bytes() == (uninterrupted / name).read_bytes()


def test_a_run_whose_report_fails_is_not_finished(command, uninterrupted, tmp_path, monkeypatch):
    """metrics.json says that a run is at its end: it is written when everything else is there."""
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    for name in ("metrics.json", "report.html"):
        (run / name).unlink()

    def fail(path, *_, **__):
        raise VitrailError(f"{path}: no space left")

    with monkeypatch.context() as patch:
        patch.setattr("vitrail.report.frame.write_page", fail)
        assert "no space left" in command("train", "--out", run, "--resume").err
    assert not (run / "metrics.json").exists()
    assert command("train", "--out", run, "--resume").code == 0
    assert (run / "report.html").is_file()
    assert_same_run(run, uninterrupted)


@pytest.mark.parametrize(
    "words, parts",
    [
        (["--lr", "0.5"], ["--lr", "0.5", "0.002"]),
        (["--data", "digits"], ["--data", "digits", "quadrants.npz"]),
        (["--image-size", "9"], ["--image-size", "(9, 9)", "(8, 8)"]),
        (["--position", "sinusoidal"], ["--position", "sinusoidal_2d", "learned_1d"]),
        (["--patience", "3"], ["--patience", "3", "None"]),
        (["--epochs", "3", "--seed", "8"], ["--seed", "8", "7"]),
        (["--flip"], ["--flip", "True", "False"]),
    ],
)
def test_an_option_that_differs_is_named(words, parts, command, uninterrupted):
    answer = command("train", "--out", uninterrupted, "--resume", *words)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    for part in parts:
        assert part in answer.err


def test_the_same_options_in_other_words_are_accepted(command, arrays, uninterrupted):
    words = (
        "--data",
        arrays,
        *OPTIONS,
        "--image-size",
        8,
        "--position",
        "learned",
        "lr=0.002",
        "--no-flip",
        "--workers",
        "auto",
    )
    assert command("train", "--out", uninterrupted, "--resume", *words).code == 0


@pytest.mark.parametrize("file", [TENSORS, NUMBERS])
def test_a_truncated_state_gives_one_line(file, command, uninterrupted, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    (run / "metrics.json").unlink()
    path = latest_state(run / "state") / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    answer = command("train", "--out", run, "--resume")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert str(path) in answer.err


def test_a_state_of_another_model_gives_one_line(command, uninterrupted, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    (run / "metrics.json").unlink()
    config = yaml.safe_load((run / "config.yaml").read_text()) | {"model": "vit_micro_conv"}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    numbers = latest_state(run / "state") / NUMBERS
    numbers.write_text(numbers.read_text().replace('"finished": true', '"finished": false'))
    answer = command("train", "--out", run, "--resume")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "does not fit" in answer.err


# ------------------------------------------------------------------------------------------------------- the state itself


@pytest.fixture
def learner():
    """A model and an optimizer that has made one step."""
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    model(torch.randn(2, 5)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def test_state_survives_a_crash_at_any_point_of_saving(learner, tmp_path):
    folder = tmp_path / "state"
    save_state(folder, Progress(step=3), *learner)
    assert [path.name for path in folder.iterdir()] == ["step-000000003"]
    # killed while writing the next one
    (folder / ".writing").mkdir()
    (folder / ".writing" / TENSORS).write_bytes(b"half")
    assert latest_state(folder) == folder / "step-000000003"
    # killed between moving the old one of the same step away and moving the new one in
    (folder / "step-000000003").rename(folder / ".replaced")
    assert latest_state(folder) == folder / ".replaced"
    save_state(folder, Progress(step=3, epoch=1), *learner)
    # killed before the replaced one was removed; then the same step is saved once more
    shutil.copytree(folder / "step-000000003", folder / ".replaced")
    save_state(folder, Progress(step=3, epoch=2), *learner)
    assert [path.name for path in folder.iterdir()] == ["step-000000003"]
    assert load_state(folder / "step-000000003", *learner).progress.epoch == 2


def test_state_puts_weights_optimizer_and_generator_back(learner, tmp_path):
    model, optimizer = learner
    save_state(tmp_path, Progress(step=1, best={"epoch": 1, "loss": 0.1}, rate=0.3), model, optimizer)
    weight, drawn = model.weight.detach().clone(), torch.rand(3)
    moment = optimizer.state[model.weight]["exp_avg"].clone()
    torch.manual_seed(1)
    torch.nn.init.zeros_(model.weight)
    optimizer.state.clear()
    progress = load_state(latest_state(tmp_path), model, optimizer).progress
    assert progress == Progress(step=1, best={"epoch": 1, "loss": 0.1}, rate=0.3)
    assert model.weight.equal(weight)
    assert optimizer.state[model.weight]["exp_avg"].equal(moment)
    assert torch.rand(3).equal(drawn)


def test_a_file_that_is_no_state_is_refused(learner, tmp_path):
    save_state(tmp_path, Progress(), *learner)
    checkpoint = latest_state(tmp_path)
    (checkpoint / NUMBERS).write_text('{"unheard": 1}')
    with pytest.raises(VitrailError, match="not a readable training state"):
        load_state(checkpoint, *learner)
    (checkpoint / TENSORS).write_bytes(b"")
    with pytest.raises(VitrailError, match="truncated"):
        load_state(checkpoint, *learner)
