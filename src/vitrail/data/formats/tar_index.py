"""Where each file of a tar archive lies, from its headers alone: nothing is unpacked, and no name becomes a path.

Python's tarfile does this too, at several times the work a file, and follows what a header claims. Here every step goes on by
a block of 512 bytes at least, and a size is checked against the file's before anything of it is read  [POSIX pax, ustar].
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vitrail.errors import VitrailError

BLOCK = 512
NAME_LIMIT = 65_536  # bytes of a long name or of a pax header


class Member(NamedTuple):
    """One plain file of an archive."""

    name: str
    offset: int
    size: int


def list_members(path: Path) -> Iterator[Member]:
    """The plain files of an uncompressed archive, in their order; folders and links are passed over."""
    try:
        with path.open("rb") as file:
            yield from _members(file, path.stat().st_size)
    except OSError as error:
        raise VitrailError(f"{path}: cannot be read ({error.strerror})") from None
    except VitrailError as error:
        raise VitrailError(f"{path}: {error}") from None


def _members(file: BinaryIO, end: int) -> Iterator[Member]:
    offset = 0
    long_name: str | None = None
    long_size: int | None = None
    while offset < end:
        file.seek(offset)
        header = file.read(BLOCK)
        if offset == 0 and header[:2] == b"\x1f\x8b":
            raise VitrailError("compressed with gzip, so its images cannot be read in any order; gunzip it first")
        if header.count(0) == len(header) and offset:
            return
        if len(header) < BLOCK:
            raise VitrailError(f"ends in the middle of a header (at byte {offset}); it was cut off")
        if _octal(header[148:156]) != sum(header) - sum(header[148:156]) + 8 * 32:
            raise VitrailError(f"not a tar archive, or a broken one (at byte {offset})")
        kind, size = header[156:157], _octal(header[124:136]) if long_size is None else long_size
        if kind in b"123456":
            size = 0  # links, devices and folders have no content, whatever they state
        if size > end - offset - BLOCK:
            raise VitrailError(f"ends in the middle of a file of {size:,} bytes (at byte {offset}); it was cut off")
        if kind in (b"L", b"x"):  # the name, or more, of the file that follows
            if size > NAME_LIMIT:
                raise VitrailError(f"a name of {size:,} bytes (at byte {offset}) is over the limit of {NAME_LIMIT:,}")
            content = file.read(size)
            if kind == b"L":
                long_name = _text(content)
            else:
                fields = _pax(content)
                long_name = fields.get("path", long_name)
                long_size = int(fields["size"]) if fields.get("size", "").isdecimal() and len(fields["size"]) < 20 else None
                if any(key.startswith("GNU.sparse") for key in fields):
                    raise VitrailError(f"holds a sparse file (at byte {offset}), which is not read")
        else:
            if kind in (b"0", b"\0", b"7"):
                prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
                name = _text(header[:100])
                yield Member(long_name or (f"{prefix}/{name}" if prefix else name), offset + BLOCK, size)
            elif kind == b"S":
                raise VitrailError(f"holds a sparse file (at byte {offset}), which is not read")
            long_name = long_size = None
        offset += BLOCK + -(-size // BLOCK) * BLOCK
    if not end:
        raise VitrailError("an empty file, not a tar archive")
    if offset > end:  # the blocks of zeros that should follow may be missing, but not the end of the last file's own block
        raise VitrailError(f"ends in the middle of a block (at byte {end}); it was cut off")


def _octal(field: bytes) -> int:
    """A number of a header: octal digits, or (its first bit set) 256 to the power of its bytes."""
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & ~(1 << (8 * len(field) - 1))
    try:
        return max(0, int(field.strip(b" \0") or b"0", 8))
    except ValueError:
        return -1


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _pax(content: bytes) -> dict[str, str]:
    """Records `length key=value newline`; what is not so is passed over."""
    fields = {}
    while content:
        digits, _, rest = content.partition(b" ")
        if not digits.isdigit() or len(digits) > 6 or not 0 < int(digits) <= len(content):
            break
        key, _, value = rest[: int(digits) - len(digits) - 1].rstrip(b"\n").partition(b"=")
        fields[_text(key)] = _text(value)
        content = content[int(digits) :]
    return fields
