"""The header of a safetensors file, checked as if an enemy wrote it: nothing is believed that the file's size does not bear out.

A file is 8 bytes (the header's length n, little-endian), n bytes of JSON, and the data. The JSON names, for every tensor, its dtype,
shape and the half-open range of its bytes in the data; the ranges must cover the data without a gap and without an overlap.
"""

import math
from typing import Any, NamedTuple

from vitrail.errors import VitrailError
from vitrail.models.reading.json_text import MOST_BYTES, parse_object
from vitrail.models.reading.names import quoted

LENGTH_BYTES = 8
METADATA = "__metadata__"
MOST_AXES = 32  # torch's kernels have a limit of 64
ITEM_BYTES = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"), 1),
}


class Entry(NamedTuple):
    """Where a tensor is: bytes begin to end of the data."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def header_length(first: bytes, file_bytes: int) -> int:
    """The length that the first eight bytes claim, if a file of this size can have it."""
    if len(first) < LENGTH_BYTES:
        raise VitrailError(f"the file has {file_bytes} bytes, its header's length alone takes {LENGTH_BYTES}")
    length = int.from_bytes(first[:LENGTH_BYTES], "little")
    if length > MOST_BYTES:
        raise VitrailError(f"the header claims {length} bytes, {MOST_BYTES} is the limit")
    if length > file_bytes - LENGTH_BYTES:
        raise VitrailError(f"the header claims {length} bytes, {file_bytes - LENGTH_BYTES} are left in the file")
    return length


def parse_header(header: bytes, data_bytes: int) -> dict[str, Entry]:
    """Every tensor's place in data of this size, in the order of the header."""
    record = parse_object(header, where="the header")
    metadata = record.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise VitrailError(f"{METADATA} of the header must be texts by name")
    entries = {name: _entry(name, value) for name, value in record.items()}
    _check_cover(entries, data_bytes)
    return entries


def _entry(name: str, value: Any) -> Entry:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise VitrailError(f"{quoted(name)} of the header must have dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise VitrailError(f"{quoted(name)} has the unknown dtype {quoted(dtype)}: expected {', '.join(ITEM_BYTES)}")
    if not _whole_numbers(shape) or len(shape) > MOST_AXES:
        raise VitrailError(f"{quoted(name)} must have a shape of at most {MOST_AXES} sizes, none negative, got {quoted(shape)}")
    if not _whole_numbers(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise VitrailError(f"{quoted(name)} must have two data_offsets, none negative, in order, got {quoted(offsets)}")
    if (
        math.prod(max(size, 1) for size in shape) >= 2**60
    ):  # a size of 0 would make any other fit: strides overflow all the same
        raise VitrailError(f"{quoted(name)} has the shape {quoted(shape)}, more than any memory holds")
    begin, end = offsets
    if (needed := math.prod(shape) * ITEM_BYTES[dtype]) != end - begin:
        rule = f"{dtype} of shape {quoted(shape)} takes {needed} bytes"
        raise VitrailError(f"{quoted(name)}: {rule}, its data_offsets {begin} to {end} give {end - begin}")
    return Entry(dtype, tuple(shape), begin, end)


def _whole_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)  # True is an int, too


def _check_cover(entries: dict[str, Entry], data_bytes: int) -> None:
    """A range begins where the last one ended, from 0 to the end of the data: no byte twice, none that nobody named."""
    reached = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != reached:
            problem = "overlaps the one before" if entry.begin < reached else "leaves a gap before it"
            raise VitrailError(f"{quoted(name)} {problem}: its data_offsets begin at {entry.begin}, expected {reached}")
        reached = entry.end
    if reached != data_bytes:
        raise VitrailError(f"the header describes {reached} bytes of data, the file has {data_bytes}")
