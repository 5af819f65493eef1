"""Text of any origin in a Markdown page, where it shows and does nothing."""

import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

MOST_LETTERS = 200


def plain(text: Any) -> str:
    """One line of text that can be shown: no line breaks, no control or text-direction characters, no lone surrogates."""
    line = " ".join(str(text).split())
    shown = "".join(c for c in line if unicodedata.category(c) not in ("Cc", "Cs") and not _turns(c))
    return shown if len(shown) <= MOST_LETTERS else shown[: MOST_LETTERS - 1] + "…"


def _turns(letter: str) -> bool:
    return "\u202a" <= letter <= "\u202e" or "\u2066" <= letter <= "\u2069"


def last_name(text: Any) -> str:
    """The last part of what may be a path: where a user keeps data is nobody's business."""
    return plain(PurePosixPath(str(text).replace("\\", "/")).name) or "data"


def literal(text: Any) -> str:
    """Markdown that shows the text as it is: code between more backticks than it has in a row."""
    shown = plain(text)
    fence = "`" * (_longest_run(shown) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def block(lines: Iterable[str], language: str) -> str:
    """A block of code whose fence no line of it can close."""
    text = "\n".join(lines)
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    """How many backticks stand in a row at most."""
    return max(map(len, "".join(c if c == "`" else " " for c in text).split()), default=0)
