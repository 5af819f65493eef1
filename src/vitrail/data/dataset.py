"""What a data set is to the rest of the library: classes, and splits that give pictures and labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from PIL import Image

from vitrail.data.images import read_picture
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
    """A sequence of labelled pictures. `labels` is known without reading any picture."""

    @property
    def labels(self) -> np.ndarray: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[Image.Image, int]: ...

    def name(self, index: int) -> str:
        """What to call one picture in a table: its path, or its number."""


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Pictures with classes, divided. Test is read once, at the end; it never chooses anything."""

    name: str
    classes: tuple[str, ...]
    splits: Mapping[SplitName, Split]
    notes: tuple[str, ...] = ()  # what was decided while opening it, for people to read

    def __getitem__(self, split: SplitName) -> Split:
        if split not in self.splits:
            raise VitrailError(f'{self.name} has no split "{split}": it has {", ".join(self.splits)}')
        return self.splits[split]


class ArraySplit:
    """Pictures in memory: n h w or n h w c, uint8."""

    def __init__(self, pictures: np.ndarray, labels: np.ndarray) -> None:
        self.pictures, self.labels = pictures, labels.astype(np.int64)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return Image.fromarray(self.pictures[index]), int(self.labels[index])

    def name(self, index: int) -> str:
        return str(index)


class FileSplit:
    """Pictures in files, read when asked for."""

    def __init__(self, paths: Sequence[Path], labels: np.ndarray) -> None:
        self.paths, self.labels = list(paths), labels.astype(np.int64)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return read_picture(self.paths[index]), int(self.labels[index])

    def name(self, index: int) -> str:
        return str(self.paths[index])


class Part:
    """Some pictures of another split, by number."""

    def __init__(self, whole: Split, indices: np.ndarray) -> None:
        self.whole, self.indices = whole, indices
        self.labels = whole.labels[indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return self.whole[int(self.indices[index])]

    def name(self, index: int) -> str:
        return self.whole.name(int(self.indices[index]))
