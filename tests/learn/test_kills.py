"""kill -9 at random moments of saving: there is always a checkpoint to go on from, whole and not older than the last finished one.

A child process saves version after version, each tensor and number of a version being its number; the parent kills it.
"""

import mmap
import os
import random
import signal
import struct
import time
from itertools import count
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from vitrail.learn.training.checkpoint import WRITING, find_checkpoint
from vitrail.learn.training.state import Progress, load_state, save_state

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process with torch in it is forked for each kill")
LONGEST = 0.03  # seconds that a child lives: several checkpoints


class Learner:
    """Model, optimizer and average, filled with one number."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(97, 101), nn.Linear(101, 103))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9)
        self.model(torch.zeros(1, 97)).sum().backward()
        self.optimizer.step()
        self.average = torch.zeros(89)

    def tensors(self) -> list[Tensor]:
        moments = [self.optimizer.state[parameter]["momentum_buffer"] for parameter in self.model.parameters()]
        return [*(parameter.data for parameter in self.model.parameters()), *moments, self.average]

    def save(self, folder: Path, version: int) -> None:
        for tensor in self.tensors():
            tensor.fill_(version)
        step = version - version % 3  # each step three times, so that most saves replace one of the same step
        save_state(folder, Progress(step=step, epoch=version), self.model, self.optimizer, extra={"average": self.average})

    def load(self, checkpoint: Path) -> int:
        """The version of a checkpoint, the same in all its parts."""
        for tensor in self.tensors():
            tensor.fill_(-1)
        progress, extra = load_state(checkpoint, self.model, self.optimizer)
        self.average = extra["average"]
        assert {value for tensor in self.tensors() for value in tensor.unique().tolist()} == {progress.epoch}
        return progress.epoch


class Notes:
    """What the child tells through shared memory: the version it is writing, and the last one that it has written."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 16)

    def write(self, writing: int, written: int) -> None:
        self.memory[:] = struct.pack("qq", writing, written)

    def read(self) -> tuple[int, int]:
        return struct.unpack("qq", self.memory[:])


def save_until_killed(folder: Path, first: int, learner: Learner, notes: Notes) -> None:
    try:
        for version in count(first):
            notes.write(version, version - 1)
            learner.save(folder, version)
            notes.write(0, version)
    finally:
        os._exit(1)  # an error: the parent expects death by a signal


def kill_often(folder: Path, kills: int) -> None:
    learner, notes, draw = Learner(), Notes(), random.Random(0)
    learner.save(folder, 1)
    version, inside, remains = 1, 0, 0
    for done in count():
        if done >= kills and (remains or done >= 5 * kills):  # a machine with much else to do seldom gets as far as writing
            break
        notes.write(0, version)
        child = os.fork()
        if child == 0:
            save_until_killed(folder, version + 1, learner, notes)
        while notes.read() == (0, version):  # the child is not yet there
            time.sleep(0.0005)
        time.sleep(draw.uniform(0.0, LONGEST))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "saving failed in the child"
        writing, written = notes.read()
        inside += writing > 0
        remains += (folder / WRITING).exists()
        checkpoint, faults = find_checkpoint(folder)
        assert checkpoint is not None
        assert faults == (), "what is newer is whole"
        version = learner.load(checkpoint)
        assert version in {written, writing or written}
    print(f"{inside} of {done} kills landed inside a write, {remains} of them left one half-written")
    assert inside >= done / 2
    assert remains > 0


def test_twenty_kills(tmp_path):
    kill_often(tmp_path / "state", 20)


@pytest.mark.slow
def test_two_hundred_kills(tmp_path):
    kill_often(tmp_path / "state", 200)
