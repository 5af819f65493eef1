"""Peak memory, measured in a process that does nothing else."""

import sys

import pytest

import vitrail as vt
from vitrail.deploy.bench import memory
from vitrail.deploy.bench.memory import peak_memory


@pytest.fixture
def folder(tmp_path):
    return vt.save(vt.create_model("vit_nano_patch8_32"), tmp_path / "model")


def test_a_process_of_its_own_tells_each_batch_size(folder):
    found = peak_memory(folder, "torch", (64, 1))
    assert list(found) == [1, 64]
    assert 2**20 < found[1] < 2**30
    assert found[64] > found[1]


def test_what_fails_is_nothing(folder, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert peak_memory(folder, "torch", (1,)) == {}


def test_a_peak_is_seen_after_it_is_over():
    memory.forget_peak()
    before = memory.resident()
    block = bytearray(64 * 2**20)
    block[::4096] = b"x" * len(block[::4096])
    del block
    assert memory.peak() - before > 60 * 2**20
