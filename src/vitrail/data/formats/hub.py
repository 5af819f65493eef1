"""Hugging Face datasets: `hf:owner/name` from the hub, or a folder that `save_to_disk` wrote. Needs the extra `data`.

The image column is taken undecoded, so that images go through our own reader. Labels are a ClassLabel column, a list of
those (several labels), or a plain column named label.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vitrail.data.dataset import SYNONYMS, DataSet, Labelled, Split, SplitName
from vitrail.data.formats.classes import mark_present, order_classes
from vitrail.data.formats.layout import in_order
from vitrail.data.images import ImageError, read_image
from vitrail.errors import VitrailError
from vitrail.extras import need

LABELS = ("label", "labels", "class", "fine_label")


class HubSplit(Labelled):
    """Rows of a table; an image is stored as its file's bytes, or as the path of one."""

    encoded = True

    def __init__(self, table: Any, column: str, labels: np.ndarray, *, source: str) -> None:
        super().__init__(labels)
        self.table, self.column, self.source = table.select_columns([column]), column, source

    def read(self, index: int, *, target: tuple[int, int] | None = None) -> Image.Image:
        return read_image(self.content(index), name=self.name(index), target=target)

    def content(self, index: int) -> bytes:
        cell = self.table[int(index) % len(self)][self.column] or {}
        if cell.get("bytes") is not None:
            return bytes(cell["bytes"])
        if not cell.get("path"):
            raise ImageError(self.name(index), "no image in this row")
        try:
            return Path(cell["path"]).read_bytes()
        except (OSError, ValueError) as error:
            raise ImageError(self.name(index), f"cannot be read ({error})") from None

    def name(self, index: int) -> str:
        return f"{self.source}[{index}]"


def is_saved(path: Path) -> bool:
    """Whether a folder was written by `save_to_disk`."""
    return (path / "dataset_dict.json").is_file() or all(
        (path / name).is_file() for name in ("state.json", "dataset_info.json")
    )


def open_hub(name: str) -> DataSet:
    """A dataset of the hub, `owner/name`: downloaded, or found in the hub's cache."""
    if not name or name.startswith((".", "/")) or "\0" in name:
        raise VitrailError(f'"hf:{name}": expected hf:owner/name, the name of a dataset on the hub')
    datasets = need("datasets", "data")
    remarks = logging.getLogger("huggingface_hub")
    level = remarks.level
    remarks.setLevel(logging.ERROR)  # without a network it would print each of its attempts
    try:
        found = datasets.load_dataset(name)
    except Exception as error:  # of requests, the hub's client, Arrow and datasets itself
        raise VitrailError(f'"hf:{name}" cannot be loaded ({type(error).__name__}: {error})') from None
    finally:
        remarks.setLevel(level)
    return _convert(found, name=name, where=f"hf:{name}")


def open_saved(path: Path) -> DataSet:
    """A folder written by `save_to_disk`."""
    datasets = need("datasets", "data")
    try:
        found = datasets.load_from_disk(str(path))
    except Exception as error:  # of Arrow and datasets itself
        raise VitrailError(f"{path}: cannot be read as a saved dataset ({type(error).__name__}: {error})") from None
    return _convert(found, name=path.resolve().name, where=str(path))


def _convert(found: Any, *, name: str, where: str) -> DataSet:
    tables: Mapping[str, Any] = found if isinstance(found, Mapping) else {"train": found}
    notes: list[str] = []
    parts: dict[SplitName, Any] = {}
    for key, table in tables.items():
        split = SYNONYMS.get(str(key).lower())
        if split is None or split in parts:
            notes.append(f'the split "{key}" of {where} is not used')
        else:
            parts[split] = table
    parts = in_order(parts, where=Path(where))
    datasets = need("datasets", "data")
    features = parts["train"].features
    image = _image_column(features, datasets, where=where)
    label = _label_column(features, datasets, where=where)
    values = {split: [_each(cell) for cell in table[label]] for split, table in parts.items()}
    classes, numbers = _classes(features[label], values["train"], where=where)
    several = _inner(features[label]) is not features[label]
    splits: dict[SplitName, Split] = {}
    for split, table in parts.items():
        if image not in table.features or label not in table.features:
            raise VitrailError(f"{where}: the {split} split lacks the column {image} or {label}")
        if values[split] and all(cell == [-1] for cell in values[split]):
            notes.append(f"the {split} split of {where} has no labels, and is not used")
            continue
        rows = [
            [_number(value, numbers, where=f"{where} {split}[{row}]") for value in cell]
            for row, cell in enumerate(values[split])
        ]
        if not several and any(len(row) != 1 for row in rows):
            raise VitrailError(f"{where}: a row of {split} has no label")
        labels = mark_present(rows, len(classes)) if several else np.array(rows, dtype=np.int64).reshape(-1)
        bare = table.cast_column(image, datasets.Image(decode=False))
        splits[split] = HubSplit(bare, image, labels, source=f"{where} {split}")
    return DataSet(
        name=name.rsplit("/", 1)[-1], classes=classes, splits=in_order(splits, where=Path(where)), notes=tuple(notes)
    )


def _image_column(features: Mapping[str, Any], datasets: Any, *, where: str) -> str:
    found = [name for name, feature in features.items() if isinstance(feature, datasets.Image)]
    if not found:
        raise VitrailError(f"{where}: no column of images; it has {', '.join(features)}")
    return next((name for name in ("image", "img") if name in found), found[0])


def _label_column(features: Mapping[str, Any], datasets: Any, *, where: str) -> str:
    classed = [name for name, feature in features.items() if isinstance(_inner(feature), datasets.ClassLabel)]
    plain = [name for name in LABELS if name in features]
    if not classed and not plain:
        raise VitrailError(f"{where}: no column of classes (a ClassLabel, or one named label); it has {', '.join(features)}")
    return next((name for name in LABELS if name in classed), (classed or plain)[0])


def _classes(feature: Any, values: list[list[Any]], *, where: str) -> tuple[tuple[str, ...], dict[int | str, int]]:
    """The classes, and the number of each value: a ClassLabel counts its names, another column's text is the name."""
    inner = _inner(feature)
    if hasattr(inner, "names"):
        return tuple(inner.names), {number: number for number in range(len(inner.names))}
    classes = order_classes(str(value) for cell in values for value in cell)
    if not classes:
        raise VitrailError(f"{where}: no row of train has a label")
    return classes, {name: number for number, name in enumerate(classes)}


def _inner(feature: Any) -> Any:
    return getattr(feature, "feature", feature)  # of a list, what it is a list of


def _each(cell: Any) -> list[Any]:
    return list(cell) if isinstance(cell, list) else [] if cell is None else [cell]


def _number(value: Any, numbers: dict[int | str, int], *, where: str) -> int:
    number = numbers.get(value if isinstance(value, int) and value in numbers else str(value))
    if number is None:
        raise VitrailError(f"{where}: the label {str(value)[:40]!r} is not in train")
    return number
