"""A safetensors file as tensors that share the file's memory: nothing is copied, and pages are read when they are first used."""

import mmap
from pathlib import Path

import torch
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.reading.safetensors_header import ITEM_BYTES, LENGTH_BYTES, Entry, header_length, parse_header

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "C64": torch.complex64,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "BOOL": torch.bool,
    "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8,
}  # fmt: skip
ARCHIVES = {b"PK\x03\x04": "a zip archive, as of torch.save or numpy", b"\x80\x02": "a pickle", b"\x80\x04": "a pickle"}


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors by name, of the dtypes they are stored in. The map is private: writing to a tensor does not write to the file."""
    mapped = map_file(path)
    first = mapped[:LENGTH_BYTES]
    try:
        data = LENGTH_BYTES + header_length(first, len(mapped))
        entries = parse_header(mapped[LENGTH_BYTES:data], len(mapped) - data)
    except VitrailError as error:
        kind = next((f"{what}; " for magic, what in ARCHIVES.items() if first.startswith(magic)), "")
        raise VitrailError(f"{path}: truncated or not a safetensors file ({kind}{error})") from None
    return {name: _tensor(mapped, entry, data) for name, entry in entries.items()}


def map_file(path: Path) -> mmap.mmap:
    """A file's bytes, opened once: what was checked is what is read."""
    try:
        if not path.is_file():  # a pipe or a device would never end
            raise VitrailError(f"{path}: {'not a file' if path.exists() else 'missing'}")
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise VitrailError(f"{path}: cannot be read ({error})") from None
    except ValueError as error:
        if isinstance(error, VitrailError):
            raise
        raise VitrailError(f"{path}: the file is empty") from None  # the one thing that mmap refuses


def _tensor(mapped: mmap.mmap, entry: Entry, data: int) -> Tensor:
    dtype, begin, end = DTYPES[entry.dtype], data + entry.begin, data + entry.end
    if begin == end:
        return torch.empty(entry.shape, dtype=dtype)
    if entry.dtype == "BOOL":  # a byte that is neither 0 nor 1 is no bool that torch could count on
        return torch.frombuffer(mapped, dtype=torch.uint8, count=end - begin, offset=begin).ne(0).view(entry.shape)
    if begin % ITEM_BYTES[entry.dtype]:  # a header that was not padded: kernels want items where the processor has them
        return torch.frombuffer(bytearray(mapped[begin:end]), dtype=dtype).view(entry.shape)
    return torch.frombuffer(mapped, dtype=dtype, count=(end - begin) // ITEM_BYTES[entry.dtype], offset=begin).view(entry.shape)
