"""YOLO text: a file an image, a line an object: class, then cx cy w h, or the corners of a polygon, in shares of the sides.

`data.yaml` names the classes and where train, val and test lie; without it `train/images` + `train/labels`, `images/train` +
`labels/train`, or `images` + `labels`. An image's file is found by `labels` in place of `images` in its path; an image
without a file has no objects. Shares are of the upright image, as the tools that write this format draw them.

n objects
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vitrail.data.dataset import DataSet, SplitName
from vitrail.data.folder import find_images
from vitrail.data.formats.classes import check_names, find_names
from vitrail.data.formats.layout import check_some_exist, exists, folder_splits, in_order, locate
from vitrail.data.formats.marks import MarkedSplit, Marks, check_boxes
from vitrail.data.formats.outlines import MOST_CORNERS, Outline
from vitrail.data.formats.reading import parse_number, read_text, read_yaml
from vitrail.errors import VitrailError

KEYS: dict[SplitName, tuple[str, ...]] = {"train": ("train",), "val": ("val", "valid", "validation"), "test": ("test",)}
MOST_CLASSES = 100_000


class Line(NamedTuple):
    """One object of a label file; `corners` is empty for a box."""

    number: int
    box: tuple[float, float, float, float]  # x0 y0 x1 y1, shares
    corners: tuple[float, ...]


def find_yolo(root: Path) -> dict[SplitName, list[Path]] | None:
    """The images of a folder laid out for YOLO, split by split; None where there are no label files of this kind."""
    images, labels = root / "images", root / "labels"
    if images.is_dir() and labels.is_dir() and _has_labels(labels):
        inner = folder_splits(images)
        return {split: find_images(folder) for split, folder in inner.items()} or {"train": find_images(images)}
    found = {
        split: find_images(folder / "images")
        for split, folder in folder_splits(root).items()
        if (folder / "images").is_dir() and (folder / "labels").is_dir() and _has_labels(folder / "labels")
    }
    return found or None


def is_yolo_description(table: Any) -> bool:
    """Whether a YAML file's content is YOLO's: class names and where the images lie."""
    return isinstance(table, dict) and "names" in table and any(key in table for keys in KEYS.values() for key in keys)


def open_yolo_description(file: Path) -> DataSet:
    """data.yaml to a dataset."""
    table = read_yaml(file)
    if not is_yolo_description(table):
        raise VitrailError(f"{file}: not a YOLO description: expected names, and train with val and test")
    if "kpt_shape" in table:
        raise VitrailError(f"{file}: key points (kpt_shape) are not read, only boxes and polygons")
    names = check_names(table["names"], where=f"{file}: names")
    stated = table.get("path")
    root = locate(file.parent, stated) if isinstance(stated, str) else file.parent
    root = root if exists(root) else file.parent  # tools write a path of the machine they ran on
    images: dict[SplitName, list[Path]] = {}
    for split, keys in KEYS.items():
        value = next((table[key] for key in keys if table.get(key)), None)
        if value is not None:
            images[split] = _listed(value, root, where=f"{file}: {split}")
    return open_yolo(file, images, names=names)


def open_yolo(root: Path, images: Mapping[SplitName, list[Path]], *, names: tuple[str, ...] | None = None) -> DataSet:
    """Every label file is read when the set is opened."""
    folder = root if root.is_dir() else root.parent
    images = in_order(images, where=root)
    names = names or find_names(folder, folder / "labels", folder / "train" / "labels")
    read = {split: [_read_image(path) for path in paths] for split, paths in images.items()}
    for split, paths in images.items():
        if not paths:
            raise VitrailError(f"{root}: the {split} split has no images")
        check_some_exist(paths, where=root)
        if not any(exists(label_file(path)) for path in paths):
            raise VitrailError(f'{root}: no image of {split} has a label file: no file "{label_file(paths[0])}"')
    if names is None:
        highest = max((line.number for lines, _ in read["train"] for line in lines), default=-1)
        names = tuple(map(str, range(highest + 1)))
    if not names:
        raise VitrailError(f"{root}: no object is marked in any file of the train split")
    splits: dict[SplitName, MarkedSplit] = {}
    for split, paths in images.items():
        problems: list[str] = []
        marks = []
        for path, (lines, faults) in zip(paths, read[split], strict=True):
            entry, more = _mark(lines, len(names), where=str(label_file(path)))
            marks.append(entry)
            problems += faults + more
        if split == "train":
            problems += [f"{file}: has no image: left out" for file in _without_image(images)]
        splits[split] = MarkedSplit(paths, marks, classes=names, problems=problems)
    return DataSet(name=folder.resolve().name, classes=names, splits=splits)


def label_file(image: Path) -> Path:
    """`…/images/…/x.jpg` to `…/labels/…/x.txt`; beside the image where no folder is named images."""
    parts = list(image.parts[:-1])
    if "images" in parts:
        parts[len(parts) - 1 - parts[::-1].index("images")] = "labels"
    return Path(*parts, f"{image.stem}.txt")


def parse_line(text: str) -> Line:
    """One line of a label file, or an error that says what is wrong with it."""
    words = text.split()
    if len(words) > 1 + 2 * MOST_CORNERS:
        raise VitrailError(f"a polygon of over {MOST_CORNERS:,} corners")
    values = [parse_number(word) for word in words]
    if not (values and values[0] >= 0 and values[0] < MOST_CLASSES and values[0] == int(values[0])):
        raise VitrailError(f"a line begins with a class number from 0 up, got {words[0][:40] if words else ''!r}")
    if not np.isfinite(values).all():
        raise VitrailError("a line holds something that is no number")
    if len(values) == 5:
        cx, cy, width, height = values[1:]
        return Line(int(values[0]), (cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2), ())
    if len(values) < 7 or len(values) % 2 == 0:
        raise VitrailError(f"a line is a class and 4 numbers, or a class and 3 or more corners: got {len(values)} numbers")
    x, y = values[1::2], values[2::2]
    return Line(int(values[0]), (min(x), min(y), max(x), max(y)), tuple(values[1:]))


def _read_image(image: Path) -> tuple[list[Line], list[str]]:
    file = label_file(image)
    if not exists(file):
        return [], []
    lines, problems = [], []
    try:
        for number, text in enumerate(read_text(file).splitlines(), start=1):
            if text.strip():
                try:
                    lines.append(parse_line(text))
                except VitrailError as error:
                    problems.append(f"{file}, line {number}: {error}: left out")
    except VitrailError as error:
        problems.append(f"{error}: left out")
    return lines, problems


def _mark(lines: list[Line], classes: int, *, where: str) -> tuple[Marks, list[str]]:
    problems = [
        f"{where}: there is no class {line.number}, only {classes} names: left out" for line in lines if line.number >= classes
    ]
    known = [line for line in lines if line.number < classes]
    boxes = np.array([line.box for line in known], dtype=np.float64).reshape(-1, 4)
    clipped, good, faults = check_boxes(
        boxes, np.ones((len(known), 2)), describe=lambda at: f"{where}: class {known[at].number}", slack=0.002
    )
    kept = [line for line, keep in zip(known, good.tolist(), strict=True) if keep]
    outlines: tuple[Outline | None, ...] = tuple(
        (np.array(line.corners, dtype=np.float32).reshape(-1, 2),) if line.corners else None for line in kept
    )
    return Marks(
        boxes=clipped[good].astype(np.float32),
        classes=np.array([line.number for line in kept], dtype=np.int64),
        crowd=np.zeros(len(kept), dtype=bool),
        difficult=np.zeros(len(kept), dtype=bool),
        outlines=outlines,
        shares=True,
    ), problems + faults  # fmt: skip


def _without_image(splits: Mapping[SplitName, list[Path]]) -> list[Path]:
    """Text files in the folders of labels of these images whose image is not there. Beside images any text may lie."""
    paths = (path for paths in splits.values() for path in paths)
    folders = {label_file(path).parent: path.parent for path in paths if "images" in path.parts[:-1]}
    found: list[Path] = []
    for labels, images in folders.items():
        stems = {path.stem for path in images.iterdir()} if images.is_dir() else set()
        found += [file for file in sorted(labels.glob("*.txt")) if file.stem not in stems and "classes" not in file.stem]
    return found


def _has_labels(folder: Path) -> bool:
    """Text files beside no images: a class of images that is called labels has images."""
    return any(file.name != "classes.txt" for file in folder.rglob("*.txt")) and not find_images(folder)


def _listed(value: Any, root: Path, *, where: str) -> list[Path]:
    """A folder of images, a .txt file of paths, or several of these."""
    found: list[Path] = []
    for entry in value if isinstance(value, list) else [value]:
        if not isinstance(entry, str):
            raise VitrailError(f"{where}: expected a folder, a .txt file, or a list of them, got {entry!r}")
        # Some exporters write ../train/images for a folder that lies beside the file.
        places = (locate(root, entry), root / entry.removeprefix("../"))
        place = next((place for place in places if exists(place)), None)
        if place is None:
            raise VitrailError(f'{where}: no folder or file "{root / entry}"')
        if place.is_dir():
            found += find_images(place)
        else:
            found += [locate(place.parent, line.strip()) for line in read_text(place).splitlines() if line.strip()]
    return found
