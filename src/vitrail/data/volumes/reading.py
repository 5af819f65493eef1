"""NIfTI files: what a header says is checked before a voxel is read, and axes are turned to point right, front and up (RAS+).

x to the patient's right, y to the front, z up
"""

import gzip
import logging
import math
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Shaped, UInt16

from vitrail.errors import VitrailError
from vitrail.extras import need

ENDINGS = (".nii", ".nii.gz")
MOST_VOXELS = 2**30
MOST_INFLATED = 1040  # bytes that a byte of gzip can become, at most: deflate ends at 1032
LONGEST = 1e6  # mm: no voxel has longer edges
AT_ONCE = 2**24  # voxels that are read in one go


@dataclass(frozen=True)
class VolumeFile:
    """A NIfTI file whose header is sound: one volume of three axes. `size` and `spacing` (mm) are along RAS+ axes."""

    path: Path
    image: Any  # nibabel's, no voxel of it read
    turns: Float32[np.ndarray, "3 2"]  # of the stored axes: which RAS+ axis each is, and in which direction
    size: tuple[int, int, int]
    spacing: tuple[float, float, float]

    def read(self) -> Float32[np.ndarray, "x y z"]:
        """All voxels, scaled as the header says; what is not finite is 0."""
        values = np.empty(self.size, np.float32)
        self.read_into(values)
        return values

    def read_into(self, target: Any) -> None:
        """The same into an array, in memory or in a file, piece by piece along the axis that is stored last: a file is read once, in order."""
        nibabel = need("nibabel", "medical")
        last = self.image.shape[2]
        step = max(1, AT_ONCE // max(1, self.image.shape[0] * self.image.shape[1]))
        axis, direction = int(self.turns[2, 0]), self.turns[2, 1]
        with name_the_file(self.path):
            stored = nibabel.load(self.path, keep_file_open=True)  # or gzip would begin at the beginning again for each piece
            for begin in range(0, last, step):
                end = min(begin + step, last)
                piece = np.asarray(stored.dataobj[:, :, begin:end], dtype=np.float32)
                piece = piece.reshape(piece.shape[0], piece.shape[1], -1)  # of four axes, the last being 1
                np.nan_to_num(piece, copy=False, posinf=0.0, neginf=0.0)
                turned = turn(piece, self.turns)
                place = slice(begin, end) if direction > 0 else slice(last - end, last - begin)
                target[tuple(place if other == axis else slice(None) for other in range(3))] = turned

    def read_labels(self) -> UInt16[np.ndarray, "x y z"]:
        """Voxels as whole numbers from 0."""
        values = self.read()
        whole = np.rint(values)
        if not np.array_equal(values, whole) or values.min() < 0 or values.max() >= 2**16:
            raise VitrailError(f"{self.path}: labels must be whole numbers from 0 to {2**16 - 1}")
        return whole.astype(np.uint16)


def open_volume(path: Path) -> VolumeFile:
    """Reads and checks the header only."""
    nibabel = need("nibabel", "medical")
    if not path.is_file():
        raise VitrailError(f"{path}: no such file")
    if not path.name.endswith(ENDINGS):
        raise VitrailError(f"{path}: a volume is a file of {' or '.join(ENDINGS)}")
    with name_the_file(path):
        image = nibabel.load(path)
        if not isinstance(image, nibabel.Nifti1Image):  # NIfTI-2 is one too
            raise ValueError(f"it is {type(image).__name__}")
        shape, kind = tuple(map(int, image.shape)), image.get_data_dtype()
        affine = np.asarray(image.affine, dtype=np.float64)
        lengths = np.asarray(image.header.get_zooms()[:3], dtype=np.float64)
        offset = int(image.dataobj.offset)
    if len(shape) not in (3, 4) or min(shape) < 1 or (len(shape) == 4 and shape[3] != 1):
        raise VitrailError(f"{path}: expected one volume of three axes, got shape {shape}")
    if math.prod(shape) > MOST_VOXELS:
        raise VitrailError(f"{path}: {math.prod(shape):,} voxels are more than the {MOST_VOXELS:,} that are read")
    if kind.kind not in "iufb" or kind.itemsize > 8:
        raise VitrailError(f"{path}: voxels must be real numbers of at most 8 bytes, got {kind}")
    room = path.stat().st_size * (MOST_INFLATED if path.name.endswith(".gz") else 1)
    if offset < 0 or offset + math.prod(shape) * kind.itemsize > room:
        raise VitrailError(f"{path}: the file is shorter than the {shape} voxels that its header tells of")
    if not all(0 < length <= LONGEST for length in lengths):
        raise VitrailError(f"{path}: a voxel's edges must be longer than 0, got {tuple(lengths.tolist())}")
    if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-12:
        raise VitrailError(f"{path}: the header's axes span no space")
    with name_the_file(path):
        turns = nibabel.orientations.io_orientation(affine)
    if np.isnan(turns).any():
        raise VitrailError(f"{path}: the header's axes span no space")
    order = np.argsort(turns[:, 0])
    size, spacing = (tuple(part[axis] for axis in order) for part in (shape, lengths.tolist()))
    return VolumeFile(path, image, turns.astype(np.float32), size, spacing)


def write_labels(like: VolumeFile, labels: Shaped[np.ndarray, "x y z"], path: Path) -> None:
    """Whole numbers as a NIfTI file with the header and the affine of `like`, turned back as its voxels are stored."""
    nibabel = need("nibabel", "medical")
    stored = turn_back(np.asarray(labels), like.turns)
    kind = np.uint8 if stored.max(initial=0) < 2**8 else np.uint16
    header = like.image.header.copy()
    header.set_data_dtype(kind)
    header.set_slope_inter(1, 0)
    header["cal_min"], header["cal_max"] = 0, 0  # the brightness of the scan says nothing of labels
    image = type(like.image)(stored.astype(kind, copy=False).reshape(like.image.shape), like.image.affine, header)
    temporary = path.with_name(f".part.{path.name}")
    nibabel.save(image, temporary)
    temporary.replace(path)


def turn(values: Shaped[np.ndarray, "i j k"], turns: Float32[np.ndarray, "3 2"]) -> Shaped[np.ndarray, "x y z"]:
    """Stored axes to RAS+: reversed where they point the other way, then in order."""
    directed = values[tuple(slice(None, None, int(direction)) for direction in turns[:, 1])]
    return directed.transpose(np.argsort(turns[:, 0]))


def turn_back(values: Shaped[np.ndarray, "x y z"], turns: Float32[np.ndarray, "3 2"]) -> Shaped[np.ndarray, "i j k"]:
    """The inverse of `turn`."""
    ordered = values.transpose(turns[:, 0].astype(int))
    return ordered[tuple(slice(None, None, int(direction)) for direction in turns[:, 1])]


@contextmanager
def name_the_file(path: Path) -> Iterator[None]:
    """Whatever nibabel, gzip and zlib raise on broken files as one line; what they say beside it is not repeated."""
    log = logging.getLogger("nibabel.global")
    before, log.disabled = log.disabled, True
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    except VitrailError:
        raise
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise VitrailError(f"{path}: not a readable NIfTI file (it is cut off or no gzip)") from None
    except Exception as error:
        raise VitrailError(f"{path}: not a readable NIfTI file ({str(error).strip() or type(error).__name__})") from None
    finally:
        log.disabled = before
