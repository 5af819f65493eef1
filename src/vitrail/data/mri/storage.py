"""Arrays in HDF5 and `.npz` files: which there are, without reading them, and one row of one of them."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vitrail.errors import VitrailError
from vitrail.extras import need

IN_MEMORY = 4  # arrays of `.npz` files that are kept: a compressed one can only be read whole


class Header(NamedTuple):
    """An array's shape and type."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Contents(NamedTuple):
    """What a file says about itself: its arrays, and its numbers."""

    arrays: dict[str, Header]
    numbers: dict[str, float]


def list_arrays(path: Path) -> Contents:
    """The arrays at the top of a file, and of HDF5 the attributes that are numbers."""
    with _one_line(path):
        if _is_npz(path):
            with zipfile.ZipFile(path) as archive:
                members = [name for name in archive.namelist() if name.endswith(".npy")]
                return Contents({name.removesuffix(".npy"): _npy_header(archive, name) for name in members}, {})
        h5py = need("h5py", "medical")
        with h5py.File(path, "r") as file:
            arrays = {
                name: Header(tuple(file[name].shape), file[name].dtype)
                for name in file
                if file.get(name, getclass=True) is h5py.Dataset and file[name].shape
            }
            numbers = {name: value for name, value in file.attrs.items() if isinstance(value, int | float | np.number)}
            return Contents(arrays, {name: float(value) for name, value in numbers.items()})


def read_array(path: Path, name: str, row: int | None) -> np.ndarray:
    """One row of an array along its first axis, or all of it (None)."""
    with _one_line(path):
        if _is_npz(path):
            array = _load(path, name, path.stat().st_mtime_ns)
            return array if row is None else array[row]
        with need("h5py", "medical").File(path, "r") as file:
            return np.asarray(file[name][() if row is None else row])


def _is_npz(path: Path) -> bool:
    return path.suffix.lower() == ".npz"


def _npy_header(archive: zipfile.ZipFile, name: str) -> Header:
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        return Header(tuple(shape), dtype)


@lru_cache(maxsize=IN_MEMORY)
def _load(path: Path, name: str, changed: int) -> np.ndarray:
    """`changed` is when the file was written: one that was written again is read again."""
    with np.load(path, allow_pickle=False) as file:
        array: np.ndarray = file[name]
    array.setflags(write=False)
    return array


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    try:
        yield
    except VitrailError:
        raise
    except Exception as error:  # h5py, numpy, zipfile and zlib raise whatever they like on broken files
        reason = str(error).strip() or type(error).__name__
        raise VitrailError(f"{path}: not a readable scan ({reason})") from None
