"""Tar shards in webdataset's layout: `000123.jpg` with `000123.cls`, `.txt` or `.json` beside it, in many .tar files.

A name up to its first dot is the sample's. `.cls` is a class number, `.txt` a class name, `.json` holds `label` (number or name)
or `labels` (several). Splits are folders (`train/*.tar`) or words of a file's name (`train-000.tar`); a shard of neither is train's.
`classes.txt` beside the shards gives numbers their names.

The index is built once from the archives' headers. An image is then read by its place; each read opens its shard anew, so that
nothing is shared between workers, however they were started.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vitrail.data.dataset import SYNONYMS, DataSet, Labelled, Split, SplitName
from vitrail.data.folder import find_images
from vitrail.data.formats.classes import find_names, mark_present, order_classes
from vitrail.data.formats.layout import folder_splits, in_order
from vitrail.data.formats.reading import parse_json
from vitrail.data.formats.tar_index import Member, list_members
from vitrail.data.images import EXTENSIONS, ImageError, read_image
from vitrail.errors import VitrailError

LABEL_LIMIT = 65_536  # bytes of one label file
KINDS = ("cls", "txt", "json")
Label = int | str | tuple[int | str, ...]  # a class number or a class name, or several


class ShardSplit(Labelled):
    """Images inside archives, by shard, offset and size."""

    encoded = True

    def __init__(self, shards: Sequence[Path], labels: np.ndarray, *, names: Sequence[str], places: np.ndarray) -> None:
        super().__init__(labels)
        self.shards, self.names, self.places = list(shards), list(names), places  # places: n 3 (shard, offset, size)

    def read(self, index: int, *, target: tuple[int, int] | None = None) -> Image.Image:
        return read_image(self.content(index), name=self.name(index), target=target)

    def content(self, index: int) -> bytes:
        shard, offset, size = self.places[index].tolist()
        try:
            content = _read_at(self.shards[shard], offset, size)
        except OSError as error:
            raise ImageError(self.name(index), (error.strerror or "cannot be read").lower()) from None
        if len(content) < size:
            raise ImageError(self.name(index), "its shard was cut off after it was opened")
        return content

    def name(self, index: int) -> str:
        return f"{self.shards[self.places[index][0]]}:{self.names[index]}"


def find_shards(root: Path) -> dict[SplitName, list[Path]] | None:
    """The shards of a folder, split by split; None where it has none."""
    inner = {split: found for split, folder in folder_splits(root).items() if (found := _tars(folder))}
    if inner:
        return inner
    splits: dict[SplitName, list[Path]] = {}
    for file in _tars(root):
        words = re.split(r"[^a-z]+", file.name.lower())
        splits.setdefault(next((SYNONYMS[word] for word in words if word in SYNONYMS), "train"), []).append(file)
    return splits or None


def open_shards(shards: dict[SplitName, list[Path]], *, root: Path) -> DataSet:
    """Indexes every shard; labels are read, images are not."""
    indexed = {split: _index(files) for split, files in in_order(shards, where=root).items()}
    folder = root if root.is_dir() else root.parent
    names = find_names(folder)
    classes = names or order_classes(str(name) for _, _, labels in indexed["train"] for name in _each(labels))
    if not classes:
        raise VitrailError(f"{root}: no image of train has a label")
    numbers = {name: number for number, name in enumerate(classes)}
    several = any(isinstance(label, tuple) for samples in indexed.values() for _, _, label in samples)
    splits: dict[SplitName, Split] = {}
    for split, samples in indexed.items():
        found = []
        for shard, member, label in samples:
            where = f"{shards[split][shard]}:{member.name}"
            if several != isinstance(label, tuple):
                raise VitrailError(f"{where}: one label and several are mixed; use labels for all")
            found.append([_number(one, numbers, named=names is not None, where=where) for one in _each(label)])
        splits[split] = ShardSplit(
            shards[split],
            mark_present(found, len(classes)) if several else np.array(found, dtype=np.int64)[:, 0],
            names=[member.name for _, member, _ in samples],
            places=np.array([(shard, member.offset, member.size) for shard, member, _ in samples], dtype=np.int64),
        )
    return DataSet(name=root.resolve().name.removesuffix(".tar"), classes=classes, splits=splits)


def _tars(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    archives = [file for file in files if file.suffix.lower() == ".tar" or is_compressed(file)]
    if not archives or any(find_images(child) for child in folder.iterdir() if child.is_dir()):
        return []  # an archive beside folders of images is what they came in
    refuse_compressed(archives[0])
    return [file for file in archives if not is_compressed(file)]


def is_compressed(path: Path) -> bool:
    return re.search(r"\.(tgz|tar\.(gz|bz2|xz|zst|lz4))$", path.name.lower()) is not None


def refuse_compressed(path: Path) -> None:
    """A compressed archive can only be read from its beginning on."""
    if is_compressed(path):
        raise VitrailError(f"{path}: a compressed archive cannot be read in any order; unpack it to a plain .tar first")


def _index(files: Sequence[Path]) -> list[tuple[int, Member, Label]]:
    samples: list[tuple[int, Member, Label]] = []
    for shard, file in enumerate(files):
        images: dict[str, Member] = {}
        notes: dict[str, dict[str, Member]] = {}
        for member in list_members(file):
            head, _, base = member.name.rpartition("/")
            stem, _, ending = base.partition(".")
            key = f"{head}/{stem}"
            if f".{ending.lower()}" in EXTENSIONS and stem:
                if key in images:
                    raise VitrailError(f"{file}: both {images[key].name} and {member.name} are images of one sample")
                images[key] = member
            elif ending in KINDS and stem:
                notes.setdefault(key, {})[ending] = member
        if not images:
            raise VitrailError(f"{file}: holds no images ({', '.join(sorted(EXTENSIONS))})")
        with file.open("rb") as opened:
            for key, image in images.items():
                found = notes.get(key, {})
                kind = next((kind for kind in KINDS if kind in found), None)
                if kind is None:
                    raise VitrailError(f"{file}: {image.name} has no label: no .cls, .txt or .json of its name")
                where = f"{file}:{found[kind].name}"
                if found[kind].size > LABEL_LIMIT:
                    raise VitrailError(f"{where}: a label of {found[kind].size:,} bytes is over the limit of {LABEL_LIMIT:,}")
                opened.seek(found[kind].offset)
                samples.append((shard, image, _parse(opened.read(found[kind].size), kind, where=where)))
    return samples


def _parse(content: bytes, kind: str, *, where: str) -> Label:
    if kind == "json":
        table = parse_json(content, where=where)
        if isinstance(table, dict) and isinstance(table.get("labels"), list):
            return tuple(_one(value, where=where) for value in table["labels"])
        value = (
            next((table[key] for key in ("label", "class", "cls") if key in table), None) if isinstance(table, dict) else None
        )
        return _one(value, where=where)
    try:
        text = content.decode().strip()
    except UnicodeDecodeError:
        raise VitrailError(f"{where}: not UTF-8 text") from None
    if kind == "cls":
        if not re.fullmatch("[0-9]{1,9}", text):
            raise VitrailError(f"{where}: .cls holds a class number from 0 up, got {text[:40]!r}")
        return int(text)
    if "\n" in text or len(text) > 200:
        raise VitrailError(f"{where}: .txt holds a class name; this is a longer text")
    return _one(text, where=where)


def _one(value: Any, *, where: str) -> int | str:
    if (
        isinstance(value, bool)
        or not isinstance(value, str | int)
        or value == ""
        or (isinstance(value, int) and not 0 <= value < 10**9)
    ):
        raise VitrailError(f"{where}: a label is a class number from 0 up or a name, got {str(value)[:40]!r}")
    return value


def _each(label: Label) -> tuple[int | str, ...]:
    return label if isinstance(label, tuple) else (label,)


def _number(label: int | str, numbers: dict[str, int], *, named: bool, where: str) -> int:
    """A name's number; a number counts the names of classes.txt, and is itself a name where there is no such file."""
    if named and isinstance(label, int):
        if label >= len(numbers):
            raise VitrailError(f"{where}: the class number {label} has no name: classes.txt has {len(numbers)}")
        return label
    if str(label) not in numbers:
        raise VitrailError(f'{where}: the class "{label}" is not in {"classes.txt" if named else "train"}')
    return numbers[str(label)]


def _read_at(path: Path, offset: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)
