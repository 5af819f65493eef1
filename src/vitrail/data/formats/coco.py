"""COCO JSON: images, boxes, polygons and run lengths in one file a split  [Lin+ 2014].

One file is the training split. A folder may hold `annotations/instances_train*.json` with val and test likewise (or
`annotations/train.json`), and its images in folders of the same name; or `train/_annotations.coco.json` with images beside.
Category numbers may have gaps: classes are the categories in the order of their numbers, from the training file.

n objects
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vitrail.data.dataset import SYNONYMS, DataSet, SplitName
from vitrail.data.formats.layout import check_some_exist, exists, folder_splits, in_order, locate
from vitrail.data.formats.marks import MarkedSplit, Marks, check_boxes
from vitrail.data.formats.outlines import Outline, check_polygon, check_runs
from vitrail.data.formats.reading import as_number, parse_json, read_text
from vitrail.errors import VitrailError

BESIDE = "_annotations.coco.json"
_NAME = re.compile(r"(?:instances_)?(train|val|test)[^/]*\.json")


def find_annotations(root: Path, name: re.Pattern[str]) -> dict[SplitName, Path]:
    """The files in annotations/ with such a name, whose first group is the split."""
    found: dict[SplitName, Path] = {}
    for file in sorted((root / "annotations").glob("*.json")):
        if match := name.fullmatch(file.name):
            split = SYNONYMS[match[1]]
            if split in found:
                raise VitrailError(
                    f"{file.parent}: both {found[split].name} and {file.name} look like the {split} split; keep one"
                )
            found[split] = file
    return found


def find_coco(root: Path) -> dict[SplitName, Path] | None:
    """The annotation files of a COCO folder, split by split; None where a folder is none."""
    found = find_annotations(root, _NAME)
    found = found or {split: folder / BESIDE for split, folder in folder_splits(root).items() if (folder / BESIDE).is_file()}
    return found or ({"train": root / BESIDE} if (root / BESIDE).is_file() else None)


def open_coco(files: Mapping[SplitName, Path], *, name: str) -> DataSet:
    """The splits of a set, each from its file."""
    files = in_order(files, where=Path(name))
    tables = {split: read_coco(file) for split, file in files.items()}
    categories = _categories(tables["train"], files["train"])
    numbers = {key: number for number, key in enumerate(categories)}
    for split, table in tables.items():
        for key, label in _categories(table, files[split]).items():
            if categories.get(key) != label:
                raise VitrailError(f"{files[split]}: the category {key} ({label!r}) is not the same in train")
    classes = tuple(categories.values())
    return DataSet(
        name=name,
        classes=classes,
        splits={split: _split(table, files[split], numbers, classes) for split, table in tables.items()},
    )


def read_coco(file: Path) -> dict[str, Any]:
    """The table in a COCO file; one line if it is something else."""
    table = parse_json(read_text(file), where=str(file))
    if not isinstance(table, dict) or not all(
        isinstance(table.get(key), list) for key in ("images", "annotations", "categories")
    ):
        raise VitrailError(f"{file}: not a COCO file: expected the lists images, annotations and categories")
    for key in ("images", "annotations", "categories"):
        for number, entry in enumerate(table[key]):
            if not isinstance(entry, dict):
                raise VitrailError(f"{file}: {key}[{number}] must be a table, got {type(entry).__name__}")
    return table


def _categories(table: dict[str, Any], file: Path) -> dict[int, str]:
    found: dict[int, str] = {}
    for number, entry in enumerate(table["categories"]):
        key, label = entry.get("id"), entry.get("name")
        if type(key) is not int or not isinstance(label, str):
            raise VitrailError(f"{file}: categories[{number}] needs an id (a whole number) and a name")
        if key in found or label in found.values():
            raise VitrailError(f"{file}: two categories have the id {key} or the name {label!r}")
        found[key] = label
    if not found:
        raise VitrailError(f"{file}: has no categories")
    return dict(sorted(found.items()))


def _split(table: dict[str, Any], file: Path, numbers: dict[int, int], classes: tuple[str, ...]) -> MarkedSplit:
    rows: dict[Any, int] = {}
    names: list[str] = []
    sizes: list[tuple[int, int] | None] = []
    for number, entry in enumerate(table["images"]):
        key, label = entry.get("id"), entry.get("file_name")
        if not isinstance(key, int | str) or not isinstance(label, str) or not label:
            raise VitrailError(f"{file}: images[{number}] needs an id and a file_name")
        if key in rows:
            raise VitrailError(f"{file}: two images have the id {key!r}")
        rows[key] = number
        names.append(label)
        height, width = entry.get("height"), entry.get("width")
        known = type(height) is int and type(width) is int and 0 < height <= 10**6 and 0 < width <= 10**6
        sizes.append((height, width) if known else None)
    if not names:
        raise VitrailError(f"{file}: has no images")
    try:
        folder = _image_folder(file, names)
        paths = [locate(folder, label) for label in names]
    except VitrailError as error:
        raise VitrailError(f"{file}: file_name: {error}") from None
    check_some_exist(paths, where=file)
    marks, problems = _marks(table["annotations"], file, rows, sizes, numbers)
    kinds = sorted(numbers, key=lambda kind: numbers[kind])
    return MarkedSplit(paths, marks, classes=classes, problems=problems, ids=tuple(rows), kinds=kinds)


def _image_folder(file: Path, names: list[str]) -> Path:
    """Where the images lie: beside the file, in `images`, or in a folder named as the split, there or one folder up."""
    stem = file.stem.removeprefix("instances_")
    below = (".", "images", stem, f"images/{stem}", re.sub(r"\d+$", "", stem))
    candidates = [top / name for top in (file.parent, file.parent.parent) for name in dict.fromkeys(below)]
    return next((folder for folder in candidates if any(exists(locate(folder, name)) for name in names[:20])), file.parent)


def _marks(
    entries: list[dict[str, Any]],
    file: Path,
    rows: dict[Any, int],
    sizes: list[tuple[int, int] | None],
    numbers: dict[int, int],
) -> tuple[list[Marks], list[str]]:
    """All boxes are checked at once; COCO has close to a million."""
    problems: list[str] = []
    owners, kinds, boxes, kept = [], [], [], []
    for number, entry in enumerate(entries):
        image, category, box = entry.get("image_id"), entry.get("category_id"), entry.get("bbox")
        fault = ""
        if not isinstance(image, int | str) or image not in rows:
            fault = f"there is no image {image!r}"
        elif type(category) is not int or category not in numbers:
            fault = f"there is no category {category!r}"
        elif not isinstance(box, list) or len(box) != 4:
            fault = "bbox must be four numbers, x y width height"
        else:
            owners.append(rows[image])
            kinds.append(numbers[category])
            boxes.append([as_number(value) for value in box])
            kept.append(number)
        if fault:
            problems.append(f"{_describe(file, number, entry)}: {fault}: left out")
    corners = np.array(boxes, dtype=np.float64).reshape(-1, 4)
    corners[:, 2:] += corners[:, :2]  # x y width height to x0 y0 x1 y1
    limits = np.array([sizes[owner] or (np.inf, np.inf) for owner in owners], dtype=np.float64).reshape(-1, 2)
    clipped, good, faults = check_boxes(corners, limits, describe=lambda at: _describe(file, kept[at], entries[kept[at]]))
    problems += faults
    members: list[list[int]] = [[] for _ in sizes]
    for at in np.flatnonzero(good).tolist():
        members[owners[at]].append(at)
    boxes32, classes = clipped.astype(np.float32), np.array(kinds, dtype=np.int64)
    marks = []
    for size, inside in zip(sizes, members, strict=True):
        outlines: list[Outline | None] = []
        for at in inside:
            entry = entries[kept[at]]
            try:
                outlines.append(_outline(entry.get("segmentation"), size))
            except VitrailError as error:
                problems.append(f"{_describe(file, kept[at], entry)}: {error}: outline left out")
                outlines.append(None)
        marks.append(
            Marks(
                boxes=boxes32[inside].reshape(-1, 4),
                classes=classes[inside],
                crowd=np.array([bool(entries[kept[at]].get("iscrowd")) for at in inside], dtype=bool),
                difficult=np.zeros(len(inside), dtype=bool),
                outlines=tuple(outlines),
                size=size,
            )
        )
    return marks, problems


def _describe(file: Path, number: int, entry: dict[str, Any]) -> str:
    key = entry.get("id")
    return f"{file}: annotation {key}" if isinstance(key, int | str) else f"{file}: annotations[{number}]"


def _outline(segmentation: Any, size: tuple[int, int] | None) -> Outline | None:
    if not segmentation:
        return None
    if isinstance(segmentation, dict):
        return check_runs(segmentation.get("counts"), segmentation.get("size"), size)
    if not isinstance(segmentation, list) or not all(isinstance(polygon, list) for polygon in segmentation):
        raise VitrailError("a segmentation is a list of polygons, or run lengths")
    return tuple(check_polygon(polygon) for polygon in segmentation)
