"""Frozen dataclasses to plain JSON values and back. Unknown keys are refused by name, missing ones are named too."""

import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from vitrail.errors import VitrailError, suggestion

T = TypeVar("T")
Settings = dict[str, bool | int | float | str]  # a small table inside of a config, such as the options of a kernel
OMITTED = MappingProxyType({"omitted": True})  # metadata of a field that records leave out while it has its default


def to_record(value: Any) -> dict[str, Any]:
    """A frozen dataclass as a dictionary of JSON values; tuples become lists. Fields marked `OMITTED` are left out at their default, so
    that files of what never used them stay as they were."""
    left_out = {f.name for f in fields(value) if f.metadata.get("omitted") and getattr(value, f.name) == default_of(f)}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(value).items() if name not in left_out}


def default_of(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def has_field(config: Any, name: str) -> bool:
    """Whether the dataclass of a config declares a field of this name."""
    return any(field.name == name for field in fields(config))


def from_record(kind: type[T], record: Any, *, what: str) -> T:
    """Build `kind` from a dictionary. `what` names the source in errors, such as a file's path."""
    assert is_dataclass(kind)
    if not isinstance(record, Mapping):
        raise VitrailError(f"{what}: expected a table of options, got {type(record).__name__}")
    hints = typing.get_type_hints(kind)
    known = {f.name: f for f in fields(kind)}
    for name in record:
        if name not in known:
            raise VitrailError(f'{what}: unknown key "{name}"{suggestion(str(name), known)}')
    for name, field in known.items():
        if name not in record and field.default is MISSING and field.default_factory is MISSING:
            raise VitrailError(f'{what}: the key "{name}" is missing')
    values = {name: fit_value(hints[name], value, what=f"{what}: {name}") for name, value in record.items()}
    try:
        return typing.cast(T, kind(**values))
    except VitrailError as error:  # a rule between fields, which does not know where they came from
        raise VitrailError(f"{what}: {error}") from None


def fit_value(hint: Any, value: Any, *, what: str) -> Any:
    """`value` as `hint` wants it (lists to tuples, ints to floats), or an error that names what was expected."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        for choice in arguments:
            try:
                return fit_value(choice, value, what=what)
            except VitrailError:
                continue
    elif origin is typing.Literal:
        if any(value == choice and type(value) is type(choice) for choice in arguments):
            return value
    elif origin is tuple:
        if isinstance(value, list | tuple):
            if len(arguments) == 2 and arguments[1] is Ellipsis:
                return tuple(fit_value(arguments[0], v, what=what) for v in value)
            if len(value) == len(arguments):
                return tuple(fit_value(a, v, what=what) for a, v in zip(arguments, value, strict=True))
    elif origin is dict:
        if isinstance(value, Mapping):
            return {
                fit_value(arguments[0], key, what=what): fit_value(arguments[1], v, what=f"{what}: {key}")
                for key, v in value.items()
            }
    elif hint is Any:
        return value
    elif hint is type(None):
        if value is None:
            return None
    elif hint is float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(OverflowError):  # an int larger than every float
                return float(value)
    elif hint is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif isinstance(hint, type) and isinstance(value, hint):
        return value
    expected = " | ".join(map(_spell, arguments)) if origin in (types.UnionType, typing.Union) else _spell(hint)
    raise VitrailError(f"{what}: expected {expected}, got {value!r}")


def _spell(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return ", ".join(repr(v) for v in typing.get_args(hint))
    if typing.get_origin(hint) is tuple and typing.get_args(hint)[-1] is Ellipsis:
        return f"a list of {_spell(typing.get_args(hint)[0])}"
    return "null" if hint is type(None) else hint.__name__ if isinstance(hint, type) else str(hint)
