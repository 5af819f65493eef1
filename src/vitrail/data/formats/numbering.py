"""How masks count: which stored number is which class, and which numbers belong to no class.

Numbers are classes in their order: 0 is the first, and each number that is none is passed over. What is none is what the user says.
Where the user says nothing: numbers whose name says so (VOID), and 0 where no mask of the set has it. 255 always is none (65535 where
numbers exceed a byte), but where a set has no other numbers than 0 and 255: black-and-white masks are a custom of their own, and 255 is
class 1.

A file of class names has a line for each number from 0 on, for those that are no class too. Where masks would exceed it so, and would
not if only classes had lines, only classes have.

h w image, k classes
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, islice

import numpy as np
from jaxtyping import Int, Int32

from vitrail.data.annotations import mask_type
from vitrail.errors import VitrailError

MOST = 65535  # of the numbers that a mask can hold
VOID = frozenset({"void", "ignore", "ignored", "unlabelled", "unlabeled", "unannotated", "dontcare"})
_NEITHER = -2  # in a table: a number that is neither a class nor said to be none
Numbers = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Numbering:
    """The stored number of each class, and those that are said to be no class."""

    values: Numbers
    ignored: Numbers = ()
    nothing: int | None = 255  # is no class without a word

    def apply(self, numbers: Int[np.ndarray, "h w"]) -> np.ndarray:
        """Stored numbers as class numbers, in a byte where they fit; negative ones belong to no class already."""
        found = _table(self)[np.maximum(numbers, 0)]
        if (found == _NEITHER).any():
            wrong = int(numbers[found == _NEITHER].max())
            raise VitrailError(f"its mask has the class number {wrong}, and there are {len(self.values)} classes")
        kind = mask_type(len(self.values))
        return np.where((numbers < 0) | (found < 0), 255 if kind is np.uint8 else -1, found).astype(kind)

    def places(self, numbers: Iterable[int]) -> set[int]:
        """Which classes these stored numbers are."""
        return {self.values.index(number) for number in numbers if number in self.values}


@cache
def _table(numbering: Numbering) -> Int32[np.ndarray, "numbers"]:
    table = np.full(MOST + 1, _NEITHER, dtype=np.int32)
    table[list(numbering.values)] = np.arange(len(numbering.values))
    table[[number for number in (*numbering.ignored, numbering.nothing) if number is not None]] = -1
    return table


def is_void(name: str) -> bool:
    """Whether a name says that what is called so belongs to no class."""
    return "".join(letter for letter in name.lower() if letter.isalpha()) in VOID


def check_ignored(numbers: Collection[int]) -> None:
    """One line for what no mask can hold."""
    for number in numbers:
        if not 0 <= number <= MOST:
            raise VitrailError(f"--ignore-index takes numbers of masks, from 0 to {MOST}, got {number}")


def nothing_in(seen: Collection[int]) -> int:
    """The number that is no class by custom."""
    return 255 if max(seen, default=0) <= 255 else MOST


def exceeding(seen: Collection[int], numbering: Numbering) -> list[int]:
    """Of the numbers in a mask, those that no class has."""
    known = {*numbering.values, *numbering.ignored, nothing_in(seen)}
    return [number for number in seen if number not in known]


def number_named(
    masks: Collection[Sequence[int]], names: Sequence[str], ignore: Numbers | None
) -> tuple[Numbering, tuple[str, ...]]:
    """What numbers are classes of these names. `masks`: the numbers in each; `ignore`: None where the user says nothing."""
    everything = {number for seen in masks for number in seen}
    if is_black_and_white(everything, ignore) and len(names) == 2:
        return Numbering(values=(0, 255), ignored=ignore or (), nothing=None), tuple(names)
    void = tuple(number for number, name in enumerate(names) if is_void(name)) if ignore is None else ignore
    absent = (0,) if ignore is None and not void and counts_from_one(everything) else void
    line_for_each = Numbering(values=tuple(number for number in range(len(names)) if number not in void), ignored=void)
    classes_alone = Numbering(values=tuple(islice(_classes(absent), len(names))), ignored=absent)
    fits = {way: [seen for seen in masks if not exceeding(seen, way)] for way in (line_for_each, classes_alone)}
    alone = len(fits[classes_alone]) > len(fits[line_for_each])
    way = classes_alone if alone else line_for_each
    nothing = nothing_in({number for seen in fits[way] for number in seen})
    return replace(way, nothing=nothing), tuple(names) if alone else tuple(names[number] for number in way.values)


def number_unnamed(everything: Collection[int], ignore: Numbers | None) -> tuple[Numbering, tuple[str, ...]]:
    """The same without names: classes are called as their numbers are, but for black-and-white masks."""
    if is_black_and_white(everything, ignore):
        return Numbering(values=(0, 255), ignored=ignore or (), nothing=None), ("0", "1")
    ignored = ((0,) if counts_from_one(everything) else ()) if ignore is None else ignore
    nothing = nothing_in(everything)
    highest = max((number for number in everything if number != nothing and number not in ignored), default=0)
    values = tuple(number for number in range(highest + 1) if number not in ignored)
    return Numbering(values=values, ignored=ignored, nothing=nothing), tuple(map(str, values))


def counts_from_one(everything: Collection[int]) -> bool:
    """Whether no mask has the number 0, and 1 and others are there."""
    others = set(everything) - {nothing_in(everything)}
    return 0 not in others and 1 in others and len(others) > 1


def is_black_and_white(everything: Collection[int], ignore: Numbers | None) -> bool:
    return set(everything) in ({0, 255}, {255}) and not {0, 255} & set(ignore or ())


def describe_numbering(
    numbering: Numbering, names: Sequence[str] | None, ignore: Numbers | None, seen: Collection[int]
) -> list[str]:
    """What was decided, for people: a line each."""
    if numbering.values == (0, 255) and numbering.nothing is None:
        return ["masks hold only 0 and 255: 255 is read as class 1"]
    if ignore is not None:
        missing = [str(number) for number in ignore if number not in seen and number != numbering.nothing]
        listed = [str(number) for number in ignore if number in seen]
        return [f"of no class: {', '.join(listed)} (--ignore-index)"] * bool(listed) + [
            f"no mask has the number {', '.join(missing)} of --ignore-index"
        ] * bool(missing)
    if names is not None and numbering.ignored and is_void(names[min(numbering.ignored[0], len(names) - 1)]):
        words = ", ".join(f"{number} ({names[number]})" for number in numbering.ignored)
        return [f"of no class by name: {words}; --ignore-index {numbering.nothing} would make it one"]
    if numbering.ignored:
        return ["no mask has the number 0: classes count from 1"]
    return []


def _classes(ignored: Collection[int]) -> Iterator[int]:
    return (number for number in count() if number not in ignored)
