"""Options that Python gives, as the command line has them."""

import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from vitrail.tasks.options import read_record, renamed_of

T = TypeVar("T")


def read_arguments(kind: type[T], given: Mapping[str, Any], *, what: str, use: str = "train") -> T:
    """A path is text, and one number is a tuple where several may be given."""
    hints, renamed = typing.get_type_hints(kind), renamed_of(kind)
    several = {field.name for field in fields(kind) if takes_several(hints[field.name])}  # type: ignore[arg-type]
    record = {}
    for name, value in given.items():
        value = str(value) if isinstance(value, Path) else value
        single = renamed.get(name, name) in several and isinstance(value, int | float) and not isinstance(value, bool)
        record[name] = (value,) if single else value
    return read_record(kind, record, what=what, use=use, hint=True)


def takes_several(hint: Any) -> bool:
    """Whether an option is a tuple of any length."""
    return any(
        typing.get_origin(kind) is tuple and Ellipsis in typing.get_args(kind) for kind in (hint, *typing.get_args(hint))
    )


def join_words(words: float | int | str | Sequence[object] | None) -> str | None:
    """As the command line has it: several with commas."""
    if words is None or isinstance(words, str):
        return words
    return ",".join(map(str, words)) if isinstance(words, Sequence) else str(words)
