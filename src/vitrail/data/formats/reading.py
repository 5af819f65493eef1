"""Text, JSON and YAML files of strangers: what cannot be read is one line, whatever is inside."""

import json
import math
from pathlib import Path
from typing import Any

import yaml

from vitrail.errors import VitrailError

YAML_LIMIT = 100_000  # bytes: a thousand class names stay far below, and PyYAML is slow


def read_text(path: Path) -> str:
    """A UTF-8 file, with or without a byte-order mark, its line ends as they are."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise VitrailError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except (OSError, ValueError) as error:
        raise VitrailError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def parse_json(text: str | bytes, *, where: str) -> Any:
    """One JSON value; `where` names its source in errors."""
    try:
        return json.loads(text)
    except RecursionError:
        raise VitrailError(f"{where}: not readable JSON (nested too deeply)") from None
    except ValueError as error:  # also bytes that are no text, and numbers of more than 4,300 digits
        raise VitrailError(f"{where}: not readable JSON ({error})") from None


class _Loader(yaml.SafeLoader):
    """Plain YAML without anchors, which can name a tree of billions of leaves in a few lines."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not read")
        return super().compose_node(parent, index)


def read_yaml(path: Path) -> Any:
    """What a small YAML file holds."""
    text = read_text(path)
    if len(text) > YAML_LIMIT:
        raise VitrailError(f"{path}: a description of {len(text):,} letters is over the limit of {YAML_LIMIT:,}")
    try:
        return yaml.load(text, Loader=_Loader)
    except RecursionError:
        raise VitrailError(f"{path}: cannot be read as YAML (nested too deeply)") from None
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, AttributeError, LookupError) as error:
        # PyYAML's constructors raise all of these on dates that do not exist, numbers without digits, and the like.
        raise VitrailError(f"{path}: cannot be read as YAML ({error})") from None


def as_number(value: Any) -> float:
    """A number as a float; not-a-number for everything else, and for what no image is large enough for."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) if abs(value) <= 1e7 else math.nan  # compared before it is converted: an int may exceed every float


def parse_number(text: str | None) -> float:
    """The number a text spells; not-a-number where it spells none."""
    try:
        return as_number(float(text or ""))
    except ValueError:
        return math.nan
