"""Decoded images that are kept: the same batches as without, in every process, within the budget, and nothing left behind."""

import errno
import os
import pickle
import tempfile
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from vitrail.data import cache as module
from vitrail.data.augmentation import Augmentation
from vitrail.data.cache import Cache, choose_cache
from vitrail.data.dataset import ArraySplit, FileSplit, Part
from vitrail.data.image_source import image_loader
from vitrail.data.shapes import ShapesSplit
from vitrail.errors import VitrailError
from vitrail.preprocessing import neutral

SHAPE = (5, 7, 3)
IMAGE = 5 * 7 * 3 + 1


class Counted(FileSplit):
    """Images whose every reading leaves a mark, in whichever process."""

    def read(self, index, *, target=None):
        with Path(f"{self.paths[index]}.read").open("a") as file:
            file.write(".")
        return super().read(index, target=target)

    def readings(self):
        return [len(Path(f"{path}.read").read_text()) if Path(f"{path}.read").exists() else 0 for path in self.paths]


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(11):
        Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).save(tmp_path / f"{number:02}.png")
    return Counted(sorted(tmp_path.glob("*.png")), np.arange(11) % 2)


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    # Not tempfile.tempdir: the workers' sockets lie there, whose names must be short.
    monkeypatch.setattr(module, "tempfile", SimpleNamespace(mkstemp=partial(tempfile.mkstemp, dir=folder)))
    return folder


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_the_same_batches_and_each_image_decoded_once(files, kind, workers):
    options = {"batch": 3, "shuffle": True, "how": Augmentation(flip=True, shift=0.2), "seed": 1, "workers": workers}
    plain = image_loader(files, neutral((5, 7), 3), **options)
    kept = image_loader(files, neutral((5, 7), 3), cache=Cache(11, SHAPE, kind=kind, budget=10**6), **options)
    expected = [list(plain.batches(epoch)) for epoch in range(3)]
    for path in files.paths:
        Path(f"{path}.read").unlink(missing_ok=True)
    found = [list(kept.batches(epoch)) for epoch in range(3)]
    for one, other in zip(chain(*expected), chain(*found), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert max(files.readings()) == 1, "what one worker decoded serves all"


def test_a_budget_for_some_of_the_images():
    cache = Cache(10, SHAPE, kind="memory", budget=5 * IMAGE - 1)
    image = np.arange(IMAGE - 1, dtype=np.uint8).reshape(SHAPE)
    for index in (0, 3, 4, 9):
        assert cache.get(index) is None
        cache.put(index, image + index)
    assert [np.array_equal(cache.get(index), image + index) for index in (0, 3)] == [True, True]
    assert [index for index in (1, 4, 9) if cache.get(index) is not None] == []
    assert cache.size <= 5 * IMAGE - 1
    nothing = Cache(10, SHAPE, kind="disk", budget=5)
    nothing.put(0, image)
    assert nothing.get(0) is None


def test_a_black_image_is_an_image():
    cache = Cache(2, SHAPE, kind="memory", budget=10**4)
    cache.put(1, np.zeros(SHAPE, dtype=np.uint8))
    assert cache.get(0) is None
    assert cache.get(1) is not None


def test_a_file_is_shared_with_processes_that_are_not_forked_and_removed_at_the_end(temporary):
    cache = Cache(3, SHAPE, kind="disk", budget=10**4)
    other = pickle.loads(pickle.dumps(cache))
    image = np.full(SHAPE, 9, dtype=np.uint8)
    other.put(2, image)
    assert np.array_equal(cache.get(2), image)
    assert len(list(temporary.iterdir())) == 1
    del other
    assert len(list(temporary.iterdir())) == 1, "it belongs to the first"
    del cache
    assert not list(temporary.iterdir())


def test_memory_is_not_copied_into_processes_that_are_not_forked():
    cache = Cache(3, SHAPE, kind="memory", budget=10**4)
    cache.put(0, np.zeros(SHAPE, dtype=np.uint8))
    assert pickle.loads(pickle.dumps(cache)).get(0) is None


def test_a_full_disk_is_one_line_at_the_beginning(monkeypatch, temporary):
    def full(handle, offset, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(VitrailError, match=r"no room for a cache of 0 MB \(No space left on device\); give --cache off"):
        Cache(3, SHAPE, kind="disk", budget=10**4)
    assert not list(temporary.iterdir())


def test_what_auto_chooses(files, monkeypatch):
    arrays = ArraySplit(np.zeros((4, 8, 8), dtype=np.uint8), np.zeros(4))
    assert choose_cache([files, arrays], SHAPE, budget=15 * IMAGE) == "memory"
    assert choose_cache([files, arrays], SHAPE, budget=15 * IMAGE - 1) == "off", "all of it or nothing"
    assert choose_cache([arrays, Part(arrays, np.arange(2))], SHAPE, budget=10**9) == "memory", "they must be brought to size"
    assert choose_cache([arrays, Part(arrays, np.arange(2))], (8, 8, 1), budget=10**9) == "off", "in memory already"
    assert choose_cache([ShapesSplit("val", 5)], SHAPE, budget=10**9) == "memory", "drawing takes time too"
    monkeypatch.setattr(module.multiprocessing, "get_start_method", lambda: "spawn")
    assert choose_cache([files], SHAPE, budget=10**9) == "off"
