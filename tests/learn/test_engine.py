"""The whole engine through `vitrail train`: everything switched on at once resumes bit for bit; several processes are one run."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file
from stopping import stop_at

import vitrail as vt
from vitrail.learn.training import step
from vitrail.learn.training.state import latest_state

pytestmark = pytest.mark.usefixtures("quick_report")
EVERYTHING = {
    "mixup": 0.4, "cutmix": 1.0, "operations": 2, "erase": 0.3, "repeats": 2, "token_keep": 0.6, "ema": 0.9, "sam": 0.05,
    "drop_path": 0.3, "layer_decay": 0.8, "accumulate": 2, "checkpointing": True,
}  # fmt: skip
BASE = {"model": "vit_nano_conv", "batch": 16, "epochs": 2, "seed": 5, "quiet": True}


class Crash(Exception):  # noqa: N818
    pass


def crash() -> None:
    raise Crash


def weights(run, which="last"):
    return (Path(run) / which / "model.safetensors").read_bytes()


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_with_everything_on_a_crash_in_mid_epoch_changes_nothing(arrays, tmp_path, monkeypatch, workers):
    monkeypatch.setattr("vitrail.learn.training.loop.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    whole = vt.train(data=arrays, **BASE, **EVERYTHING, workers=0, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_at(patch, 9, by=crash)
        with pytest.raises(Crash):
            vt.train(data=arrays, **BASE, **EVERYTHING, workers=workers, out=tmp_path / "parts")
    assert latest_state(tmp_path / "parts" / "state").name == "step-000000008"
    parts = vt.train(data=arrays, out=tmp_path / "parts", resume=True, quiet=True)
    assert weights(whole.path) == weights(parts.path)
    assert weights(whole.path, "best") == weights(parts.path, "best")
    assert whole.metrics == parts.metrics


@pytest.fixture(scope="module")
def plain(arrays, quick_report, tmp_path_factory):
    """One epoch without any of the options."""
    out = tmp_path_factory.mktemp("plain") / "run"
    return vt.train(data=arrays, **(BASE | {"epochs": 1}), recipe="plain", workers=0, out=out)


@pytest.mark.parametrize("name", sorted(EVERYTHING.keys() - {"checkpointing", "accumulate"}))
def test_every_option_changes_what_is_learned(arrays, plain, tmp_path, name):
    other = vt.train(
        data=arrays, **(BASE | {"epochs": 1}), recipe="plain", workers=0, out=tmp_path / "o", **{name: EVERYTHING[name]}
    )
    assert weights(plain.path) != weights(other.path)


def test_checkpointing_changes_nothing(arrays, tmp_path):
    runs = [
        vt.train(data=arrays, **BASE, recipe="plain", drop_path=0.3, checkpointing=on, workers=0, out=tmp_path / str(on)).path
        for on in (False, True)
    ]
    assert weights(runs[0]) == weights(runs[1])


def test_a_rate_is_found_and_drawn(command, arrays, tmp_path):
    run = tmp_path / "run"
    answer = command(
        "train", "--data", arrays, "--model", "vit_nano_conv", "--epochs", 1, "--batch-size", 16, "--lr", "auto", "--out", run
    )
    assert answer.code == 0, answer.err
    assert (run / "lr_range.png").read_bytes()[:4] == b"\x89PNG"
    found = float(next(line for line in (run / "config.yaml").read_text().splitlines() if line.startswith("lr:")).split()[1])
    assert 1e-5 < found < 1e-1
    assert f"learning rate {found:.2g}" in answer.out


def test_a_rate_is_found_and_nothing_else_changes(arrays, tmp_path):
    """The hundred steps of the trial leave model and generators as they were: the found rate, given, is the same run."""
    options = {**BASE, "epochs": 1, "recipe": "plain", "drop_path": 0.4, "workers": 0}
    tried = vt.train(data=arrays, **options, lr="auto", out=tmp_path / "tried")
    rate = yaml.safe_load((tried.path / "config.yaml").read_text())["lr"]
    given = vt.train(data=arrays, **options, lr=rate, out=tmp_path / "given")
    assert weights(tried.path) == weights(given.path)


def test_accumulated_parts_reach_the_step(arrays, tmp_path, monkeypatch):
    asked, cut = [], step.cut
    monkeypatch.setattr(step, "cut", lambda batch, parts: asked.append(parts) or cut(batch, parts))
    vt.train(data=arrays, **(BASE | {"epochs": 1}), accumulate=3, workers=0, out=tmp_path / "run")
    assert asked == [3] * 6


# Several processes


class Together:
    """`torchrun -m vitrail train` with two processes."""

    def __init__(self, arrays, environment, folder, epochs=6):
        self.folder = folder
        self.options = [
            f"data={arrays}",
            "model=vit_nano_conv",
            "batch=16",
            f"epochs={epochs}",
            "seed=5",
            "drop_path=0.3",
            "mixup=0.4",
            "ema=0.9",
        ]
        self.environment = {**environment, "OMP_NUM_THREADS": "1"}

    def start(self, run, *words, restarts=0):
        line = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            "--max-restarts",
            str(restarts),
        ]
        line += ["-m", "vitrail", "train", *self.options, "--workers", "0", "--out", str(self.folder / run), *words]
        return subprocess.Popen(
            line, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def finish(self, process):
        try:
            out, err = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        assert process.returncode == 0, [line for line in err.splitlines() if line.startswith("vitrail:")] or err[-2000:]
        return out


def workers_of(process):
    """The training processes below torchrun."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(word) for word in path.read_text().split()]


def wait_for(path, process, seconds=60):
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.stderr.read()[-2000:]
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the processes in /proc")
def test_two_processes_are_one_run_and_survive_the_death_of_one(arrays, environment, tmp_path):
    together = Together(arrays, environment, tmp_path)
    out = together.finish(together.start("whole"))
    assert out.splitlines()[-1].startswith("test accuracy ")
    assert out.count("epoch   1/6") == 1, "one of them speaks"
    assert len((tmp_path / "whole" / "predictions.csv").read_text().splitlines()) == 19, "every test image once"
    process = together.start("killed", "--resume", restarts=1)
    wait_for(tmp_path / "killed" / "results.csv", process)
    os.kill(workers_of(process)[1], signal.SIGKILL)
    together.finish(process)
    for which in ("best", "last"):
        assert weights(tmp_path / "whole", which) == weights(tmp_path / "killed", which)
    steps = [json.loads(line)["step"] for line in (tmp_path / "killed" / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 37))
    states = [load_file(latest_state(tmp_path / run / "state") / "state.safetensors") for run in ("whole", "killed")]
    same = {name for name in states[0] if not name.startswith("generator/")}
    assert all(states[0][name].equal(states[1][name]) for name in same)


def kill_ranks(together, kills, *words, seed):
    """SIGKILL to a process nobody chose, at moments nobody chose, torchrun starting all of them again each time."""
    together.finish(together.start("whole", *words))
    draw, run = random.Random(seed), together.folder / "killed"
    process, seen, done = together.start("killed", "--resume", *words, restarts=kills), -1, 0
    try:
        began = time.monotonic()
        while done < kills:
            assert process.poll() is None, (done, process.stderr.read()[-2000:])
            assert time.monotonic() - began < 120, "no step for two minutes"
            kept = max((int(path.name[5:]) for path in run.glob("state/step-*")), default=-1)
            if kept <= seen:  # it has not come further yet than when it was killed
                time.sleep(0.01)
                continue
            time.sleep(draw.uniform(0.0, 0.6))
            workers, rank = workers_of(process), draw.randrange(2)
            if len(workers) < 2:  # torchrun is about to start them again
                continue
            os.kill(workers[rank], signal.SIGKILL)
            seen = max(int(path.name[5:]) for path in run.glob("state/step-*"))
            done, began = done + 1, time.monotonic()
            print(f"killed process {rank}; the last checkpoint was of step {seen}")
        together.finish(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for which in ("best", "last"):
        assert weights(together.folder / "whole", which) == weights(run, which)
    assert (together.folder / "whole" / "predictions.csv").read_text() == (run / "predictions.csv").read_text()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the processes in /proc")
@pytest.mark.parametrize("kills, words", [(10, ()), (4, ("--shard",))])
def test_killed_processes_change_nothing(arrays, environment, tmp_path, kills, words):
    together = Together(arrays, environment, tmp_path, epochs=8 + 6 * kills)
    kill_ranks(together, kills, *words, seed=kills)
