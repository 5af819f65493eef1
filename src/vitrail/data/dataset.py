"""What a dataset is to the rest of the library: classes, and splits that give images and labels.

n images
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int
from PIL import Image

from vitrail.data.images import ImageError, read_image
from vitrail.data.splitting import ALONE as ALONE
from vitrail.errors import VitrailError

SplitName = Literal["train", "val", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "val", "test")
SYNONYMS: dict[str, SplitName] = {
    "train": "train", "training": "train",
    "val": "val", "valid": "val", "validation": "val", "eval": "val",
    "test": "test", "testing": "test",
}  # fmt: skip


@runtime_checkable
class Split(Protocol):
    """A sequence of labelled images.

    `labels` is known without reading any image: n class numbers, or n k booleans where an image may have several labels.
    """

    encoded: bool  # whether the images stand in files, which may be broken and take time to decode

    @property
    def labels(self) -> np.ndarray: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[Image.Image, int | np.ndarray]: ...

    def read(self, index: int, *, target: tuple[int, int] | None = None) -> Image.Image:
        """The image alone; `target` (height, width) is the size it will be brought to, so it may come smaller than stored."""

    def content(self, index: int) -> bytes:
        """What is stored: a file's bytes, or the pixels'. Two images with the same content are the same image."""

    def name(self, index: int) -> str:
        """What to call one image in a table: its path, or its number."""


class Place(NamedTuple):
    """An image of data as it lies there: its split and its name."""

    split: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Copies:
    """Groups of images that are one image. `left_out`: what was not looked for, a line for people."""

    groups: tuple[tuple[Place, ...], ...] = ()
    left_out: str = ""

    def of(self, data: "DataSet") -> dict[SplitName, Int[np.ndarray, "n"]]:
        """The number of each image's group, split by split; ALONE where it has no copy."""
        numbers = {place: number for number, places in enumerate(self.groups) for place in places}
        found = {name: np.full(len(split), ALONE, dtype=np.int64) for name, split in data.splits.items()}
        for name, split in data.splits.items() if numbers else ():
            for index in range(len(split)):
                found[name][index] = numbers.get(Place(name, split.name(index)), ALONE)
        return found


NO_COPIES = Copies()


def describe_copies(groups: Int[np.ndarray, "n"]) -> str:
    """A line for people; nothing where there are none."""
    count = int((groups != ALONE).sum())
    return (
        f"{count:,} images are copies of each other ({len(np.unique(groups)) - (count < len(groups)):,} groups): copies stay on one side"
        if count
        else ""
    )


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Images with classes, divided. Test is read once, at the end; it never chooses anything."""

    name: str
    classes: tuple[str, ...]
    splits: Mapping[SplitName, Split]
    notes: tuple[str, ...] = ()  # what was decided while opening it, for people to read
    copies: Copies = NO_COPIES  # which stay on one side where it is divided

    @property
    def multi_label(self) -> bool:
        """Whether an image may have several labels, or none."""
        return any(split.labels.ndim == 2 for split in self.splits.values())

    def __getitem__(self, split: SplitName) -> Split:
        if split not in self.splits:
            raise VitrailError(f'{self.name} has no split "{split}": it has {", ".join(self.splits)}')
        return self.splits[split]


class Labelled:
    """What every split shares: labels, and `split[i]` as (image, label)."""

    encoded = False  # whether the images stand in files, which may be broken and take time to decode

    def __init__(self, labels: np.ndarray) -> None:
        self.labels = labels if labels.dtype == bool else labels.astype(np.int64)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Image.Image, int | np.ndarray]:
        label = self.labels[index]
        return self.read(index), label if label.ndim else int(label)

    def read(self, index: int, *, target: tuple[int, int] | None = None) -> Image.Image:
        raise NotImplementedError

    def content(self, index: int) -> bytes:
        return self.read(index).tobytes()

    def name(self, index: int) -> str:
        return str(index)


class ArraySplit(Labelled):
    """Images in memory: n h w or n h w c, uint8."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        super().__init__(labels)
        self.images = images

    def read(self, index: int, *, target: tuple[int, int] | None = None) -> Image.Image:
        return Image.fromarray(self.images[index])


class FileSplit(Labelled):
    """Images in files, read when asked for."""

    encoded = True

    def __init__(self, paths: Sequence[Path], labels: np.ndarray) -> None:
        super().__init__(labels)
        self.paths = list(paths)

    def read(self, index: int, *, target: tuple[int, int] | None = None) -> Image.Image:
        return read_image(self.paths[index], target=target)

    def content(self, index: int) -> bytes:
        try:
            return self.paths[index].read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            raise ImageError(self.name(index), (getattr(error, "strerror", None) or str(error)).lower()) from None

    def name(self, index: int) -> str:
        return str(self.paths[index])


class Part(Labelled):
    """Some images of another split, by number."""

    def __init__(self, whole: Split, indices: np.ndarray, *, labels: np.ndarray | None = None) -> None:
        super().__init__(whole.labels[indices] if labels is None else labels)
        self.whole, self.indices, self.encoded = whole, indices, whole.encoded

    def read(self, index: int, *, target: tuple[int, int] | None = None) -> Image.Image:
        return self.whole.read(int(self.indices[index]), target=target)

    def content(self, index: int) -> bytes:
        return self.whole.content(int(self.indices[index]))

    def name(self, index: int) -> str:
        return self.whole.name(int(self.indices[index]))


class Joined(Labelled):
    """The images of several splits, one after the other."""

    def __init__(self, parts: Sequence[Split]) -> None:
        super().__init__(np.concatenate([part.labels for part in parts]))
        self.parts, self.encoded = tuple(parts), any(part.encoded for part in parts)

    def at(self, index: int) -> tuple[Split, int]:
        """Which split an image is in, and its number there."""
        for part in self.parts:
            if index < len(part):
                return part, index
            index -= len(part)
        raise IndexError(index)

    def read(self, index: int, *, target: tuple[int, int] | None = None) -> Image.Image:
        part, place = self.at(index)
        return part.read(place, target=target)

    def content(self, index: int) -> bytes:
        part, place = self.at(index)
        return part.content(place)

    def name(self, index: int) -> str:
        part, place = self.at(index)
        return part.name(place)


def origin(split: Split, index: int) -> tuple[Split, int]:
    """The split that an image comes from in the end, and its number there."""
    while isinstance(split, Part | Joined):
        split, index = (split.whole, int(split.indices[index])) if isinstance(split, Part) else split.at(index)
    return split, index


def count_labels(labels: np.ndarray, classes: int) -> np.ndarray:
    """Images of each class, whether an image has one label or several."""
    return labels.sum(axis=0) if labels.ndim == 2 else np.bincount(labels, minlength=classes).astype(np.int64)


def whole_of(split: Split) -> Split:
    """The split that a part was taken from in the end; of several, the first."""
    return wholes_of(split)[0]


def wholes_of(split: Split) -> list[Split]:
    """The splits that images were taken from in the end."""
    if isinstance(split, Joined):
        return [whole for part in split.parts for whole in wholes_of(part)]
    return wholes_of(split.whole) if isinstance(split, Part) else [split]


def stored_images(split: Split, indices: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray | None:
    """Images that lie in memory at just the `shape` (h, w, ch) that is wanted: n h w ch, uint8. None where they do not."""
    while isinstance(split, Part):
        indices = split.indices[indices]
        split = split.whole
    if not isinstance(split, ArraySplit) or split.images.shape[1:] not in (shape, shape[:2] if shape[2] == 1 else shape):
        return None
    return split.images[indices].reshape(-1, *shape)
