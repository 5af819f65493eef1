"""Copies of an image stay on one side of a split that we make: they are looked for before data is divided, and listed in copies.csv."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from vitrail.data.dataset import NO_COPIES, Copies, DataSet, Place, SplitName
from vitrail.data.duplicates import Thoroughness, find_duplicates, group, thoroughness
from vitrail.data.scanning import Scan, concatenate
from vitrail.errors import VitrailError
from vitrail.files import write_table

COPIES = "copies.csv"
COLUMNS = ("group", "split", "image")
SIDE = 64  # of the thumbnails by which copies are found
SMALL = 48  # pixels of the shorter side: images of less are too much alike to tell copies from the others
LEFT_OUT: Mapping[Thoroughness, str] = {
    "crops": "",
    "few crops": "crops of less than 80 % of a side are not looked for",
    "large crops": "crops of less than 90 % of a side are not looked for",
    "whole": "crops of another image are not looked for",
    "exact": "only exact ones are looked for",
}


def find_copies(
    data: DataSet, scans: Mapping[SplitName, Scan], *, progress: Callable[[int, int], None] | None = None
) -> Copies:
    """Copies among the scanned splits, with thumbnails of SIDE; `progress` receives (images done, images in all)."""
    if not scans:
        return NO_COPIES
    where = [(name, index) for name, found in scans.items() for index in range(len(found))]
    whole = concatenate(list(scans.values()))
    small = bool(len(whole.good)) and float(np.median(whole.sizes[whole.good].min(axis=1))) < SMALL
    how: Thoroughness = "exact" if small else thoroughness(len(whole.good))
    groups = group(find_duplicates(whole, how=how, progress=progress))
    found = tuple(tuple(Place(where[i][0], data[where[i][0]].name(where[i][1])) for i in members) for members in groups)
    what = f"images under {SMALL} pixels" if small else f"{len(whole.good):,} images"
    left_out = f"copies among {what}: {LEFT_OUT[how]}" if LEFT_OUT[how] else ""
    return Copies(groups=found, left_out=left_out)


def split_by_us(data: DataSet, *, anew: bool) -> tuple[SplitName, ...]:
    """The splits whose images we divide; `anew`: train and val together, whatever their division."""
    if "train" not in data.splits:
        return ()
    if anew and "val" in data.splits:
        return ("train", "val")
    return () if {"val", "test"} <= data.splits.keys() and not anew else ("train",)


def write_copies(copies: Copies, path: Path) -> None:
    """A line per image; no file where there are none."""
    if copies.groups:
        rows = [(number, *place) for number, places in enumerate(copies.groups, 1) for place in places]
        write_table(path, [COLUMNS, *rows])


def read_copies(path: Path) -> Copies:
    """What a run has listed; none where there is no list: it found none, or it is older than the search."""
    if not path.is_file():
        return NO_COPIES
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file, strict=True))
        if rows[:1] != [list(COLUMNS)]:
            raise ValueError(f"its first line must be {','.join(COLUMNS)}")
        groups: dict[int, list[Place]] = {}
        for number, split, name in rows[1:]:
            groups.setdefault(int(number), []).append(Place(split, name))
    except (OSError, ValueError, csv.Error) as error:
        raise VitrailError(f"{path}: not a list of copies ({error})") from None
    return Copies(groups=tuple(map(tuple, groups.values())))
