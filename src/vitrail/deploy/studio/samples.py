"""Images to begin with: some of a run's own test split, where its data can still be opened."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from vitrail.data.bad_files import BAD_FILES, leave_out, read_bad_files
from vitrail.data.copies import COPIES, read_copies
from vitrail.data.dataset import DataSet, Split
from vitrail.data.examples import spread
from vitrail.data.opening import divide_data, find_data, read_division
from vitrail.data.unlabelled import divide_unlabelled, find_unlabelled
from vitrail.deploy.studio.pixels import encode_pixels
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import UploadedImage, encode, read_upload
from vitrail.errors import VitrailError
from vitrail.run_files import read_run

MOST = 24
THUMBNAIL = 160  # pixels


@runtime_checkable
class SampleList(Protocol):
    """What the page offers of a run's own data, by number."""

    kind: ClassVar[type[Any]]  # of its items
    has_thumbnails: ClassVar[bool]

    @property
    def labels(self) -> tuple[str, ...]: ...

    def item(self, number: int) -> Any:
        """The sample as if a person had handed in its file."""

    def thumbnail(self, number: int) -> tuple[bytes, str]:
        """Content and media type."""


@dataclass(frozen=True)
class Samples:
    """`chosen` images of a split."""

    kind: ClassVar[type[Any]] = UploadedImage
    has_thumbnails: ClassVar[bool] = True
    split: Split | None
    chosen: tuple[int, ...]
    labels: tuple[str, ...]

    def item(self, number: int) -> UploadedImage:
        """The sample as if a person had handed in its file."""
        split = self.check(number)
        index = self.chosen[number]
        if split.encoded:
            return read_upload(split.name(index), split.content(index))
        pixels = np.asarray(split.read(index))
        return read_upload(
            f"sample {number + 1}: {self.labels[number]}", encode_pixels(pixels[:, :, None] if pixels.ndim == 2 else pixels)
        )

    def thumbnail(self, number: int) -> tuple[bytes, str]:
        split = self.check(number)
        return encode(split.read(self.chosen[number], target=(THUMBNAIL, THUMBNAIL)), side=THUMBNAIL)

    def check(self, number: int) -> Split:
        if self.split is None or not 0 <= number < len(self.chosen):
            raise StudioError("There is no such sample.", 404)
        return self.split


NONE = Samples(None, (), ())


def find_samples(run: Path, image_size: tuple[int, int] | None, *, marked: Callable[..., DataSet] | None = None) -> Samples:
    """From the data that config.yaml names, divided as in training; none where it is gone, or would have to be downloaded.
    `image_size`: what the model of labels reads; None: images without labels, of any size. `marked` finds images in which more is
    marked than their labels: boxes, or masks."""
    options = read_run(run).options
    source, seed = options.get("data"), options.get("seed", 0)
    if not isinstance(source, str) or not isinstance(seed, int) or source.startswith("hf:"):
        return NONE
    try:
        data = find_unlabelled(source) if image_size is None else (marked or find_data)(source, image_size=image_size)
        unread = {file.name for file in read_bad_files(run / BAD_FILES) if file.when == "before"}
        left = replace(leave_out(data, unread), copies=read_copies(run / COPIES))
        data = (
            divide_unlabelled(left, seed=seed)
            if image_size is None
            else divide_data(left, seed=seed, least=1 if marked else 2, **read_division(options))
        )
    except (VitrailError, OSError):
        return NONE
    split = data["test" if "test" in data.splits else "val"]
    if image_size is None:
        some = spread(len(split), MOST)
        return Samples(split, tuple(some), tuple(Path(split.name(index)).name for index in some))
    chosen = choose(split.labels)
    return Samples(split, tuple(chosen), tuple(name_labels(split.labels[index], data.classes) for index in chosen))


def choose(labels: np.ndarray, most: int = MOST) -> list[int]:
    """The first of each class, then the second of each, and so on, in the order of classes."""
    if labels.ndim == 2:
        return list(range(min(most, len(labels))))
    rank = np.zeros(len(labels), dtype=np.int64)
    seen: dict[int, int] = {}
    for index, label in enumerate(labels.tolist()):
        rank[index] = seen.get(label, 0)
        seen[label] = seen.get(label, 0) + 1
    return [int(index) for index in np.lexsort((labels, rank))[:most]]


def name_labels(label: Any, classes: tuple[str, ...]) -> str:
    if np.ndim(label):
        return ", ".join(classes[number] for number in np.flatnonzero(label)) or "no label"
    return classes[int(label)]
