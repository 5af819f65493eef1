"""JSON of unknown origin: one object, every name once, no numbers that are none, and no nesting that would exhaust the stack."""

import json
from pathlib import Path
from typing import Any, NoReturn

from vitrail.errors import VitrailError
from vitrail.models.reading.names import quoted

MOST_BYTES = 100_000_000  # of a header; the safetensors library has the same limit
MOST_CONFIG_BYTES = 32_000_000  # the names of 21,000 classes, twice, are 2 MB


def parse_object(content: bytes, *, where: str) -> dict[str, Any]:
    """The object that the bytes spell, or an error that says what is wrong with them."""
    try:
        found = json.loads(content.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number)
    except UnicodeDecodeError:
        raise VitrailError(f"{where} is not UTF-8 text") from None
    except RecursionError:
        raise VitrailError(f"{where} is not readable as JSON (nested too deeply)") from None
    except VitrailError as error:  # before ValueError, of which it is one
        raise VitrailError(f"{where} {error}") from None
    except ValueError as error:  # of json, and of int() for a number of more than 4,300 digits
        raise VitrailError(f"{where} is not readable as JSON ({error})") from None
    if not isinstance(found, dict):
        raise VitrailError(f"{where} must be a JSON object, got {type(found).__name__}")
    return found


def read_object(path: Path) -> dict[str, Any]:
    """A small JSON file, such as config.json or the index of shards."""
    try:
        if not path.is_file():
            raise VitrailError(f"{path}: missing")
        if (size := path.stat().st_size) > MOST_CONFIG_BYTES:
            raise VitrailError(f"{path}: {size} bytes are too many for this file, {MOST_CONFIG_BYTES} is the limit")
        content = path.read_bytes()
    except OSError as error:
        raise VitrailError(f"{path}: cannot be read ({error})") from None
    return parse_object(content, where=f"{path}: the file")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """json.loads would keep the last of two values under one name; another reader keeps the first, and sees another file."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise VitrailError(f"has the name {quoted(twice)} twice")
    return found


def _no_number(word: str) -> NoReturn:
    raise VitrailError(f"has {word}, which is no number of JSON")
