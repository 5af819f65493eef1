"""A numpy archive as tensors, such as Google's Vision Transformers: a zip of plain arrays, with names like `Transformer/encoder_norm/bias`.

Nothing is unpickled and nothing is extracted. What the directory of the zip claims is checked before anything is inflated, and what comes
out is never more than was claimed: zipfile stops there.
"""

import math
import zipfile
from pathlib import Path

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.reading.names import quoted

SUFFIX = ".npy"
MOST_MEMBERS = 100_000
MOST_BYTES = 16 * 2**30
FREE_BYTES, MOST_RATIO = 2**28, 50  # weights are noise and hardly compress; a small file may do so as it likes
KINDS = {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"}
BFLOAT16 = "V2"  # numpy has none: two bytes without a meaning are how it stores jax's


def read_npz(path: Path) -> dict[str, Tensor]:
    """The arrays by name, of the dtypes they are stored in."""
    try:
        if not path.is_file():
            raise VitrailError(f"{path}: {'not a file' if path.exists() else 'missing'}")
        with zipfile.ZipFile(path) as archive:
            members = check_directory(archive.infolist(), path.stat().st_size)
            return {name: _read_array(archive, member, name) for name, member in members.items()}
    except VitrailError as error:
        raise VitrailError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    except Exception as error:  # zipfile, zlib, numpy and ast raise whatever they like on broken files
        reason = str(error) or type(error).__name__
        raise VitrailError(f"{path}: not a readable .npz file of plain arrays ({reason})") from None


def check_directory(members: list[zipfile.ZipInfo], file_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The arrays that the directory of a zip lists, if they are arrays, have decent names, and are not more than a file of this size holds."""
    if len(members) > MOST_MEMBERS:
        raise VitrailError(f"{len(members)} members, {MOST_MEMBERS} is the limit")
    total = sum(member.file_size for member in members)
    if total > MOST_BYTES:
        raise VitrailError(f"{total} bytes when inflated, {MOST_BYTES} is the limit")
    if total > max(FREE_BYTES, MOST_RATIO * file_bytes):
        raise VitrailError(
            f"{total} bytes when inflated, more than {MOST_RATIO} times its {file_bytes}: weights do not compress so"
        )
    found: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        name = member.orig_filename  # zipfile cuts filename at a NUL and mends slashes
        parts = name.split("/")  # a name in Google's files is a path in a tree of parameters
        if any(part in ("", ".", "..") for part in parts) or any(letter in name for letter in "\\:\0"):
            raise VitrailError(f"the member {quoted(name)} must not have a path for a name")
        if not name.endswith(SUFFIX):
            raise VitrailError(f"the member {quoted(name)} is not an array ({SUFFIX}); archives in archives are not opened")
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise VitrailError(f"the member {quoted(name)} is encrypted or compressed as numpy never does")
        if (short := name.removesuffix(SUFFIX)) in found:
            raise VitrailError(f"the member {quoted(name)} is there twice")
        found[short] = member
    return found


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> Tensor:
    with archive.open(member) as stream:
        try:
            version = npy.read_magic(stream)
        except ValueError:
            raise VitrailError(f"{quoted(name)} is not an array; archives in archives are not opened") from None
        if version not in ((1, 0), (2, 0)):
            raise VitrailError(f"{quoted(name)} has the version {version} of numpy's format: expected 1.0 or 2.0")
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_column, dtype = read_header(stream)
        if dtype.hasobject:
            raise VitrailError(f"{quoted(name)} is an array of objects, which only a pickle can hold: never read")
        if dtype.str[1:] not in (*KINDS, BFLOAT16):
            raise VitrailError(f"{quoted(name)} holds {quoted(str(dtype))}: only plain floats and integers are read")
        size, left = math.prod(shape) * dtype.itemsize, member.file_size - stream.tell()
        if any(side < 0 for side in shape) or math.prod(max(side, 1) for side in shape) >= 2**60 or size != left:
            raise VitrailError(f"{quoted(name)}: {dtype} of shape {quoted(shape)} takes {size} bytes, {left} are there")
        content = bytearray(stream.read(size))  # writable, for torch; the end of the stream checks the sum
    if len(content) != size:
        raise VitrailError(f"{quoted(name)} is truncated: {len(content)} of {size} bytes")
    array = np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if by_column else "C")
    if dtype.str[1:] == BFLOAT16:
        return torch.from_numpy(np.ascontiguousarray(array.view("<i2")).reshape(shape)).view(torch.bfloat16)
    native = array.astype(dtype.newbyteorder("="), order="C", copy=False)
    return torch.from_numpy(native)
