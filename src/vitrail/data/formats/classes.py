"""Class names: their order, their files, and images' labels by name."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from vitrail.data.formats.reading import parse_json, read_text
from vitrail.errors import VitrailError

NAME_FILES = ("classes.txt", "classes.json", "class_names.txt")
_WHOLE = re.compile(r"-?[0-9]{1,18}")


def order_classes(found: Iterable[str]) -> tuple[str, ...]:
    """Every name once, sorted: as numbers where all are whole numbers, else as text."""
    names = set(found)
    if all(_WHOLE.fullmatch(name) for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))


def find_names(*folders: Path) -> tuple[str, ...] | None:
    """The class names a file beside the data states: a name a line, a JSON list, or a JSON table from number to name."""
    for folder in folders:
        for file in (folder / name for name in NAME_FILES):
            if file.is_file():
                return read_names(file)
    return None


def read_names(file: Path) -> tuple[str, ...]:
    """The class names in a file, from class 0 on."""
    text = read_text(file)
    if file.suffix == ".json":
        return check_names(parse_json(text, where=str(file)), where=str(file))
    return check_names([line.strip() for line in text.splitlines() if line.strip()], where=str(file))


def check_names(names: object, *, where: str) -> tuple[str, ...]:
    """A list of names, or a table {0: name, 1: name, ...} without gaps; each name once."""
    if isinstance(names, dict):
        numbered = {str(number): name for number, name in names.items()}
        names = [numbered.get(str(number)) for number in range(len(numbered))]
        if None in names:
            raise VitrailError(f"{where}: class names must be numbered from 0 up: {names.index(None)} is missing")
    if not isinstance(names, list) or not names or not all(isinstance(name, str | int) for name in names):
        raise VitrailError(f"{where}: class names must be a list, or a table from number to name")
    found: dict[str, None] = {}
    for name in map(str, names):
        if name in found:
            raise VitrailError(f"{where}: two classes have the name {name!r}")
        found[name] = None
    return tuple(found)


def mark_present(found: Sequence[Iterable[int]], classes: int) -> np.ndarray:
    """n k booleans: which classes occur in each image."""
    present = np.zeros((len(found), classes), dtype=bool)
    for row, numbers in zip(present, found, strict=True):
        row[list(numbers)] = True
    return present
