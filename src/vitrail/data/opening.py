"""From what a user types after `--data` to a data set with train, val and test."""

from pathlib import Path
from typing import Literal

from vitrail.data.arrays import open_arrays
from vitrail.data.dataset import DataSet, Part, Split, SplitName
from vitrail.data.digits import open_digits
from vitrail.data.folder import open_folder
from vitrail.data.shapes import KINDS, ShapesSplit
from vitrail.data.splitting import stratified_split
from vitrail.errors import VitrailError, suggestion

BUILT_IN = ("digits", "shapes")
SHAPES_COUNTS: dict[SplitName, int] = {"train": 4000, "val": 500, "test": 1000}
Missing = Literal["val", "test"]


def open_data(source: str, *, seed: int = 0, image_size: tuple[int, int] | None = None, divide: bool = True) -> DataSet:
    """A built-in set, a folder or an .npz file; what it lacks of val and test is taken from train, 10 % of each class.

    With `divide` off the data is given as it is found: pictures to be scored by a model that has learned elsewhere.
    """
    if source == "digits":
        data = open_digits()
    elif source == "shapes":
        size = image_size or (64, 64)
        splits: dict[SplitName, Split] = {
            split: ShapesSplit(split, count, size=size, seed=0) for split, count in SHAPES_COUNTS.items()
        }
        data = DataSet(name="shapes", classes=KINDS, splits=splits)
    else:
        path = Path(source).expanduser()
        if not path.exists():
            raise VitrailError(
                f'no data at "{source}": give a folder, an .npz file, or a built-in set ({", ".join(BUILT_IN)}){suggestion(source, BUILT_IN)}'
            )
        if path.is_dir():
            data = open_folder(path)
        elif path.suffix.lower() == ".npz":
            data = open_arrays(path)
        else:
            raise VitrailError(f"{path}: data is a folder of pictures, an .npz file, or a built-in set ({', '.join(BUILT_IN)})")
    if not divide:
        return data
    check_classes(data)
    return _complete(data, seed=seed)


def check_classes(data: DataSet) -> None:
    """Early, readable errors for what no training can mend."""
    if len(data.classes) < 2:
        raise VitrailError(f"{data.name}: a classifier needs at least two classes, found only {data.classes[0]!r}")
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
    counts = dict.fromkeys(range(len(data.classes)), 0)
    for number in data["train"].labels.tolist():
        counts[number] += 1
    empty = [data.classes[number] for number, count in counts.items() if not count]
    if empty:
        raise VitrailError(
            f"{data.name}: no training pictures of the class {empty[0]!r}"
            + (f" and {len(empty) - 1} more" if empty[1:] else "")
        )


def _complete(data: DataSet, *, seed: int) -> DataSet:
    splits, notes = dict(data.splits), list(data.notes)
    missing: tuple[Missing, ...] = ("test", "val")
    for name in missing:
        if name not in splits:
            whole = splits["train"]
            rest, part = stratified_split(whole.labels, 0.1, seed=seed)
            if not len(part):
                raise VitrailError(
                    f"{data.name}: too few pictures to take a {name} split from train: every class has one picture"
                )
            splits["train"], splits[name] = Part(whole, rest), Part(whole, part)
            notes.append(f"no {name} split: {len(part)} pictures (10 % of each class, seed {seed}) taken from train")
    ordered: dict[SplitName, Split] = {"train": splits["train"], "val": splits["val"], "test": splits["test"]}
    return DataSet(name=data.name, classes=data.classes, splits=ordered, notes=tuple(notes))
