"""Decoded images kept for the next epoch: in memory or in a mapped file, shared by all workers, within a budget.

h w image, ch channels
"""

import mmap
import multiprocessing
import os
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import UInt8

from vitrail.data.dataset import Split, stored_images
from vitrail.errors import VitrailError

Kind = Literal["memory", "disk"]


class Cache:
    """One place per image, by its number in the split; of a set over the budget the first images have one.

    Whoever decodes an image first puts it there. The flag is set after the pixels, and two who put the same image write the
    same bytes, so no lock is needed.
    """

    def __init__(self, count: int, shape: tuple[int, int, int], *, kind: Kind, budget: int) -> None:
        image = shape[0] * shape[1] * shape[2]
        self.shape, self.kind = shape, kind
        self.places = max(0, min(count, budget // (image + 1)))
        self.size = self.places * (image + 1)  # pixels, then a flag each
        self.path: Path | None = None
        if kind == "disk" and self.places:
            self.path = _reserve(self.size)
            weakref.finalize(self, _remove, self.path, os.getpid())
        self._map()

    def _map(self) -> None:
        """A view of the shared bytes: zeros at first, so every flag is down."""
        if not self.places:
            return
        if self.path is None:
            self.bytes = mmap.mmap(-1, self.size)
        else:
            with self.path.open("r+b") as file:
                self.bytes = mmap.mmap(file.fileno(), self.size)
        flat = np.frombuffer(self.bytes, dtype=np.uint8)
        self.images = flat[: -self.places].reshape(self.places, *self.shape)
        self.flags = flat[-self.places :]

    def get(self, index: int) -> UInt8[np.ndarray, "h w ch"] | None:
        return self.images[index] if index < self.places and self.flags[index] else None

    def put(self, index: int, image: UInt8[np.ndarray, "h w ch"]) -> None:
        if index < self.places:
            self.images[index] = image
            self.flags[index] = 1

    def __getstate__(self) -> dict[str, Any]:
        """For workers that are not forked: a file is mapped again, memory cannot be, and they do without."""
        state = {name: getattr(self, name) for name in ("shape", "kind", "size", "path", "places")}
        return state if self.path is not None else {**state, "places": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._map()


def choose_cache(splits: Sequence[Split], shape: tuple[int, int, int], *, budget: int) -> Literal["off", "memory"]:
    """In memory if there is anything to gain, all of it fits, and workers are forked, so that they share it."""
    needed = sum(len(split) for split in splits) * (shape[0] * shape[1] * shape[2] + 1)
    in_memory = all(stored_images(split, np.arange(0), shape) is not None for split in splits)
    shared = multiprocessing.get_start_method() == "fork"
    return "memory" if not in_memory and needed <= budget and shared else "off"


def _reserve(size: int) -> Path:
    """A file of zeros with its room on the disk reserved: a full disk is an error now, not a crash in a worker later."""
    handle, name = tempfile.mkstemp(prefix="vitrail-cache-")
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size)
        else:
            os.truncate(handle, size)
    except OSError as error:
        Path(name).unlink()
        raise VitrailError(
            f"{name}: no room for a cache of {size / 2**20:,.0f} MB ({error.strerror}); give --cache off"
        ) from None
    finally:
        os.close(handle)
    return Path(name)


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # not by a worker, which inherits this when it is forked
        path.unlink(missing_ok=True)
