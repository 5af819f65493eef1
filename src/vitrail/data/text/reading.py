"""Text files, plain or gzipped, as lines: what cannot be read is one line that says where."""

import gzip
import zlib
from pathlib import Path

from vitrail.errors import VitrailError


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, without their ends and the spaces around them.

    Only a line feed ends a line (a carriage return before it goes): the other separators of Unicode may stand inside a sentence,
    and would shift the lines of one language against the other's.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:  # a bad gzip header is an OSError
        raise VitrailError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    content = content.removeprefix(b"\xef\xbb\xbf")  # the byte-order mark
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise VitrailError(
            f"{path}: line {number:,} is not UTF-8 text (byte 0x{content[error.start]:02x}); save it as UTF-8"
        ) from None
    lines = [line.strip() for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines  # what follows the last line feed is no line
