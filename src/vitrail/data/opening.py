"""From what a user types after `--data` to a dataset with train, val and test."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from vitrail.data.arrays import open_arrays
from vitrail.data.dataset import DataSet, FileSplit, Joined, Part, Split, SplitName, count_labels, whole_of
from vitrail.data.digits import open_digits
from vitrail.data.folder import find_class_folder, open_folder
from vitrail.data.formats.hub import open_hub
from vitrail.data.formats.numbering import Numbers
from vitrail.data.formats.opening import SUFFIXES, open_format
from vitrail.data.shapes import KINDS, ShapesSplit
from vitrail.data.splitting import stratified_split
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


def divide_data(data: DataSet, *, seed: int, least: int = 2, val_share: float | None = None) -> DataSet:
    """Checked, and with train, val and test. `least`: classes that there must be; `val_share`: of train and val together, which validates,
    whatever the data's own division; None: its own val, or 10 % of train."""
    check_classes(data, least=least)
    if val_share is not None and "val" in data.splits:
        splits: dict[SplitName, Split] = {"train": Joined([data["train"], data["val"]])}
        data = replace(data, splits=splits | {name: split for name, split in data.splits.items() if name == "test"})
    return _complete(data, seed=seed, val_share=val_share)


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


def _complete(data: DataSet, *, seed: int, val_share: float | None) -> DataSet:
    splits, notes = dict(data.splits), list(data.notes)
    if empty := empty_classes(data):
        notes.append(
            f"no training images of {len(empty)} of {len(data.classes)} labels: {', '.join(empty[:5])}{' …' if empty[5:] else ''}"
        )
    missing: tuple[Missing, ...] = ("test", "val")
    for name in missing:
        if name not in splits:
            whole, asked = splits["train"], val_share is not None and name == "val"
            share = val_share if val_share is not None and asked else SHARE
            rest, part = stratified_split(whole.labels, share, seed=seed)
            if not len(part) and whole.labels.ndim == 2:  # few images that share their labels: whichever
                rest, part = stratified_split(np.zeros(len(whole), dtype=np.int64), share, seed=seed)
            if not len(part):
                raise VitrailError(f"{data.name}: too few images to take a {name} split from train: every class has one image")
            splits["train"], splits[name] = Part(whole, rest), Part(whole, part)
            how = "train and val divided anew" if asked else f"no {name} split"
            each = f"{100 * share:g} % of each class, seed {seed}"
            notes.append(f"{how}: {len(part)} images ({each}) " + ("are val" if asked else "taken from train"))
    ordered: dict[SplitName, Split] = {"train": splits["train"], "val": splits["val"], "test": splits["test"]}
    return DataSet(name=data.name, classes=data.classes, splits=ordered, notes=tuple(notes))
