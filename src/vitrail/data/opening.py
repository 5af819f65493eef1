"""From what a user types after `--data` to a dataset with train, val and test."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vitrail.data.arrays import open_arrays
from vitrail.data.dataset import (
    ALONE,
    SPLITS,
    DataSet,
    FileSplit,
    Joined,
    Part,
    Split,
    SplitName,
    count_labels,
    describe_copies,
    whole_of,
)
from vitrail.data.digits import open_digits
from vitrail.data.folder import find_class_folder, open_folder
from vitrail.data.formats.hub import open_hub
from vitrail.data.formats.numbering import Numbers
from vitrail.data.formats.opening import SUFFIXES, open_format
from vitrail.data.shapes import KINDS, ShapesSplit
from vitrail.data.splitting import Fold, list_units, stratified_folds, stratified_split
from vitrail.errors import VitrailError, suggestion

BUILT_IN = ("digits", "shapes", "shapes:glass")
FILES = (".npz", *SUFFIXES)
SHAPES_COUNTS: dict[SplitName, int] = {"train": 4000, "val": 500, "test": 1000}
SHARE = 0.1  # of train, where val or test is missing
Missing = Literal["val", "test"]


def open_data(source: str, *, seed: int = 0, image_size: tuple[int, int] | None = None, divide: bool = True) -> DataSet:
    """A built-in set, a folder or a file; what it lacks of val and test is taken from train, 10 % of each class.

    With `divide` off the data is given as it is found: images to be scored by a model that has learned elsewhere.
    """
    data = find_data(source, image_size=image_size)
    return divide_data(data, seed=seed) if divide else data


def divide_data(
    data: DataSet, *, seed: int, least: int = 2, val_share: float | None = None, fold: Fold | None = None
) -> DataSet:
    """Checked, and with train, val and test. `least`: classes that there must be; `val_share`: of train and val together, which validates,
    whatever the data's own division; None: its own val, or 10 % of train. `fold`: this part of train and val together validates instead.
    The data's copies of an image stay on one side of what is divided here."""
    check_classes(data, least=least)
    groups = data.copies.of(data)
    if (val_share is not None or fold is not None) and "val" in data.splits:
        splits: dict[SplitName, Split] = {"train": Joined([data["train"], data["val"]])}
        data = replace(data, splits=splits | {name: split for name, split in data.splits.items() if name == "test"})
        groups["train"] = np.concatenate([groups["train"], groups.pop("val")])
    note = describe_copies(groups["train"]) if {"val", "test"} - data.splits.keys() else ""
    data = replace(data, notes=(*data.notes, *filter(None, (note, data.copies.left_out))))
    if fold is not None:
        data, left = _complete(data, groups["train"], seed=seed, missing=("test",))
        return _take_fold(data, left, fold, seed=seed)
    return _complete(data, groups["train"], seed=seed, val_share=val_share)[0]


def read_division(record: Mapping[str, Any]) -> dict[str, Any]:
    """How a run divided its data beside the seed, as `divide_data` takes it, of the run's config.yaml."""
    count = record.get("folds")
    fold = None if not count else Fold(count=count, number=record.get("fold"))
    return {"val_share": record.get("val_split", record.get("val_share")), "fold": fold}  # the second is its earlier name


def find_data(
    source: str, *, image_size: tuple[int, int] | None = None, ignore: Numbers | None = None, masks: bool = False
) -> DataSet:
    """The data as it lies there, whatever of it there is. `ignore`, `masks`: as `formats.opening.open_format`."""
    if source == "digits":
        return open_digits()
    if source in ("shapes", "shapes:glass"):
        size, glass = image_size or (64, 64), source == "shapes:glass"
        splits: dict[SplitName, Split] = {
            split: ShapesSplit(split, count, size=size, seed=0, glass=glass) for split, count in SHAPES_COUNTS.items()
        }
        return DataSet(name=source.replace(":", "_"), classes=KINDS, splits=splits)
    if source.startswith("hf:"):
        return open_hub(source.removeprefix("hf:"))
    path = Path(source).expanduser()
    if not path.exists():
        raise VitrailError(
            f'no data at "{source}": give a folder, a file, or a built-in set ({", ".join(BUILT_IN)}){suggestion(source, BUILT_IN)}'
        )
    if path.suffix.lower() == ".npz" and path.is_file():
        return open_arrays(path)
    data = open_format(path, ignore=ignore, masks=masks)
    if data is not None:
        return data
    if not path.is_dir():
        raise VitrailError(
            f"{path}: data is a folder of images, a file ({', '.join(FILES)}), or a built-in set ({', '.join(BUILT_IN)})"
        )
    return open_folder(path)


def check_classes(data: DataSet, *, least: int = 2) -> None:
    """Early, readable errors for what no training can mend."""
    if len(data.classes) < least:
        raise VitrailError(
            f"{data.name}: a classifier needs at least two classes, found only {data.classes[0]!r}{advise_classes(data)}"
        )
    seen: set[str] = set()
    for label in data.classes:
        if label in seen:
            raise VitrailError(f"{data.name}: two classes have the name {label!r}")
        if any("\ud800" <= letter <= "\udfff" for letter in label):  # a file name of other bytes; config.json could not hold it
            raise VitrailError(f"{data.name}: the class name {label!r} is not valid UTF-8")
        seen.add(label)
    for name, split in data.splits.items():
        if not len(split):
            raise VitrailError(f"{data.name}: the {name} split is empty")
    empty = empty_classes(data)
    if empty and not data.multi_label:
        raise VitrailError(
            f"{data.name}: no training images of the class {empty[0]!r}" + (f" and {len(empty) - 1} more" if empty[1:] else "")
        )


def advise_classes(data: DataSet) -> str:
    """What to do with a folder that holds a single class: its own subfolders, if it has several, may be the classes."""
    whole = whole_of(next(iter(data.splits.values())))
    if not isinstance(whole, FileSplit) or not whole.paths:
        return ""
    above = next((folder for folder in whole.paths[0].parents if folder.name == data.classes[0]), None)
    if above is not None and find_class_folder(above) is not None:
        return f"; if its folders are the classes, give --data {shlex.quote(str(above))}"
    return "; give a folder with a subfolder for each class"


def empty_classes(data: DataSet) -> list[str]:
    """Classes without a training image. Where images have several labels that is no error: a detection set may list more."""
    counts = count_labels(data["train"].labels, len(data.classes))
    return [data.classes[number] for number in np.flatnonzero(counts == 0)]


def _complete(
    data: DataSet,
    groups: np.ndarray,
    *,
    seed: int,
    val_share: float | None = None,
    missing: tuple[Missing, ...] = ("test", "val"),
) -> tuple[DataSet, np.ndarray]:
    """With the splits that it lacks, and the groups of copies of what is left of train."""
    splits, notes = dict(data.splits), list(data.notes)
    if empty := empty_classes(data):
        notes.append(
            f"no training images of {len(empty)} of {len(data.classes)} labels: {', '.join(empty[:5])}{' …' if empty[5:] else ''}"
        )
    for name in missing:
        if name not in splits:
            whole, asked = splits["train"], val_share is not None and name == "val"
            share = val_share if val_share is not None and asked else SHARE
            rest, part = stratified_split(whole.labels, share, seed=seed, groups=groups)
            if not len(part) and whole.labels.ndim == 2:  # few images that share their labels: whichever
                rest, part = stratified_split(np.zeros(len(whole), dtype=np.int64), share, seed=seed, groups=groups)
            if not len(part):
                one = "one image" if (groups == ALONE).all() else "one image, or copies of one image only"
                raise VitrailError(f"{data.name}: too few images to take a {name} split from train: every class has {one}")
            splits["train"], splits[name], groups = Part(whole, rest), Part(whole, part), groups[rest]
            how = "train and val divided anew" if asked else f"no {name} split"
            each = f"{100 * share:g} % of each class, seed {seed}"
            notes.append(f"{how}: {len(part)} images ({each}) " + ("are val" if asked else "taken from train"))
    ordered = {name: splits[name] for name in SPLITS if name in splits}
    return DataSet(name=data.name, classes=data.classes, splits=ordered, notes=tuple(notes), copies=data.copies), groups


def _take_fold(data: DataSet, groups: np.ndarray, fold: Fold, *, seed: int) -> DataSet:
    """One of the folds as val, the others as train, and no test, which nothing may read before the last model; or all as train."""
    whole = data["train"]
    check_folds(data, groups, fold.count)
    folds = stratified_folds(whole.labels, fold.count, seed=seed, groups=groups)
    inside = folds == (fold.number or 1) - 1
    val = Part(whole, np.flatnonzero(inside))
    splits: dict[SplitName, Split] = {"train": Part(whole, np.flatnonzero(~inside)), "val": val}
    note = f"fold {fold.number} of {fold.count} is val: {len(val)} images, seed {seed}"
    if fold.number is None:
        splits = {"train": whole, "val": val, "test": data["test"]}
        note = f"all {len(whole)} images but test are learned from, val too: it chooses nothing"
    return replace(data, splits=splits, notes=(*data.notes, note))


def check_folds(data: DataSet, groups: np.ndarray, count: int) -> None:
    """Every class must be in every fold; copies of an image count as one image, for they stay together."""
    labels = data["train"].labels
    units = np.array([unit[0] for unit in list_units(len(labels), groups)])
    wide = labels if labels.ndim == 2 else labels[:, None] == np.arange(len(data.classes))
    number = count_labels(labels[units], len(data.classes))
    known = np.flatnonzero(wide.any(axis=0))
    rarest = int(known[number[known].argmin()]) if len(known) else 0
    if number[rarest] < count:
        own = f"{number[rarest]} {'image' if number[rarest] == 1 else 'images'}"
        but = "" if len(units) == len(labels) else " (copies count once)"
        raise VitrailError(
            f"--folds {count}: the class {data.classes[rarest]!r} of {data.name} has only {own} in train and val{but}; "
            "give at most so many folds"
        )
