"""Images that cannot be read: found before training begins, left out, and listed in bad_files.csv."""

import csv
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from vitrail.data.dataset import DataSet, Part, Split, SplitName
from vitrail.data.scanning import Scan, scan_splits
from vitrail.errors import VitrailError
from vitrail.files import write_table

BAD_FILES = "bad_files.csv"
COLUMNS = ("picture", "split", "reason", "met")
When = Literal["before", "during"]  # training: those found before are not in the data at all


@dataclass(frozen=True, slots=True)
class BadFile:
    """One image that cannot be read."""

    name: str
    split: str
    reason: str
    when: When = "before"


@dataclass(slots=True)
class BadFiles:
    """Each bad file once, in the order met; at most a share `limit` of `images`."""

    images: int
    limit: float = 0.05
    path: Path | None = None  # where to list them, as soon as they are met
    files: dict[str, BadFile] = field(default_factory=dict)

    def add(self, bad: BadFile) -> None:
        """List one more, unless it is known; too many of them end the run."""
        if bad.name in self.files:
            return
        self.files[bad.name] = bad
        self.write()
        self.check()

    def check(self) -> None:
        count = len(self.files)
        if count > self.limit * self.images:
            first = next(iter(self.files.values()))
            more = "" if count == 1 else f", and {count - 1} more"
            raise VitrailError(
                f"{count} of {self.images} images ({count / self.images:.1%}) cannot be read, more than the {self.limit:.1%} "
                f"that --bad-files {self.limit:g} allows; {first.name}: {first.reason}{more}"
            )

    def names(self, when: When) -> set[str]:
        return {bad.name for bad in self.files.values() if bad.when == when}

    def write(self) -> None:
        if self.path is None or not self.files:
            return
        rows = ((bad.name, bad.split, bad.reason, bad.when) for bad in self.files.values())
        write_table(self.path, [COLUMNS, *rows])


def read_bad_files(path: Path) -> list[BadFile]:
    """What a run has listed; nothing where there is no list."""
    if not path.is_file():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file, strict=True))
        if rows[:1] != [list(COLUMNS)]:
            raise ValueError(f"its first line must be {','.join(COLUMNS)}")
        return [
            BadFile(name, split, reason, "during" if met == "during" else "before") for name, split, reason, met in rows[1:]
        ]
    except (OSError, ValueError, csv.Error) as error:
        raise VitrailError(f"{path}: not a list of bad files ({error})") from None


def find_bad(data: DataSet, *, workers: int, progress: Callable[[int, int], None] | None = None) -> Iterator[BadFile]:
    """Read every image that stands in a file once, at the lowest resolution, and tell those that cannot be read.

    `progress` receives (images done, images in all).
    """
    splits = {name: split for name, split in data.splits.items() if split.encoded}
    yield from list_bad(data, dict(scan_splits(splits, workers=lambda split: workers, progress=progress)))


def list_bad(data: DataSet, scans: Mapping[SplitName, Scan]) -> Iterator[BadFile]:
    """Of its splits that have been read once, what cannot be."""
    for name, found in scans.items():
        yield from (BadFile(data[name].name(index), name, reason) for index, reason in found.bad)


def leave_out(data: DataSet, names: Collection[str]) -> DataSet:
    """The data without the images of these names."""
    if not names:
        return data
    splits: dict[SplitName, Split] = {}
    for name, split in data.splits.items():
        kept = np.array([i for i in range(len(split)) if split.name(i) not in names], dtype=np.int64)
        splits[name] = split if len(kept) == len(split) else Part(split, kept)
    return DataSet(name=data.name, classes=data.classes, splits=splits, notes=data.notes)


def describe_bad(bad: BadFiles | None, *, unit: str = "images") -> str:
    """One line for people; nothing where there are none."""
    if bad is None or not bad.files:
        return ""
    count = len(bad.files)
    what = f"1 {unit.removesuffix('s')} that cannot be read is" if count == 1 else f"{count:,} {unit} that cannot be read are"
    where = "" if bad.path is None else f": see {bad.path}"
    return f"{what} left out ({count / bad.images:.2%} of {bad.images:,}){where}"
