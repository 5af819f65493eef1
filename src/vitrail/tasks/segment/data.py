"""Images with masks: opened; as batches of crops to learn from, and whole to score; and how many pixels each class has.

An image is first brought to its base size (data/base_size.py). A crop is cut from it at a random scale; to score, the image is given
whole, and its mask as it is stored.

b batch, ch channels, h w crop, p q image, k classes
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Int64, UInt8
from torch import Tensor

from vitrail.data.annotations import IGNORE
from vitrail.data.bad_files import BadFile, BadFiles, leave_out
from vitrail.data.base_size import base_size, cut_window, fill_of, to_base
from vitrail.data.clean import Counting, by_us, try_images
from vitrail.data.dataset import NO_COPIES, Copies, DataSet, Split
from vitrail.data.examples import spread
from vitrail.data.formats.numbering import Numbers
from vitrail.data.image_store import to_channels
from vitrail.data.images import ImageError
from vitrail.data.joint import Movement, move, resize
from vitrail.data.loader import Loader, OnBad, Samples
from vitrail.data.masked import annotations_of, check_mask, find_bad_masks, find_masked, read_sample, to_numbers
from vitrail.data.opening import divide_data
from vitrail.data.order import PlainOrder
from vitrail.data.randomness import uniforms
from vitrail.data.transforms import normalize, to_unit
from vitrail.errors import VitrailError
from vitrail.learn.losses.segmentation import balanced_weights
from vitrail.learn.training.world import World
from vitrail.models.segmenter import Segmenter
from vitrail.preprocessing import Preprocessing
from vitrail.tasks.image_task import note_bad
from vitrail.tasks.segment.options import Options

COUNTED = 500  # training images whose pixels are counted for --class-weights
UNEQUAL = 10
MOVES = 10  # random numbers that `joint.move` uses
WHOLE = 8  # images of a batch to score
Crop = tuple[UInt8[np.ndarray, "h w ch"], Int64[np.ndarray, "h w"]]
Counts = Callable[[], tuple[Int64[np.ndarray, "k"], Int64[np.ndarray, "k"]]]  # what `count_pixels` gives


class DenseBatch(NamedTuple):
    """What a segmenter learns from; masks hold class numbers, `annotations.IGNORE` where there is none."""

    images: Float[Tensor, "b ch h w"]
    masks: Int[Tensor, "b h w"]
    indices: Int[Tensor, "b"]


class WholeImage(NamedTuple):
    """One image at its base size and its mask at the size that it is stored at."""

    image: Float[Tensor, "1 ch h w"]
    mask: Int[Tensor, "p q"]
    number: int  # in its split
    name: str


class WholeBatch(NamedTuple):
    """Some images to score, of a size each."""

    images: list[WholeImage]
    indices: Int[Tensor, "b"]


class CropSource(Samples[Crop, DenseBatch]):
    """Sample i of an epoch is a crop of image i: how it is scaled, where it is cut and how it is augmented are functions of
    (seed, epoch, i)."""

    def __init__(
        self, split: Split, preprocessing: Preprocessing, *, classes: int, how: Movement, zoom: float = 0.0, seed: int = 0
    ) -> None:
        """Scales are from 1 / (1 + zoom) to 1 + zoom of the base size."""
        self.split, self.preprocessing, self.classes = split, preprocessing, classes
        self.how, self.zoom, self.seed = how, zoom, seed

    def sample(self, epoch: int, index: int) -> Crop:
        """An image and its mask, of the model's size."""
        size = self.preprocessing.size
        larger = (math.ceil(size[0] * (1 + self.zoom)), math.ceil(size[1] * (1 + self.zoom)))
        sample = read_sample(self.split, index, classes=self.classes, target=larger)
        draws = uniforms(self.seed, epoch, np.array([index]), count=MOVES + 3)[0, MOVES:].tolist()
        factor = (1 + self.zoom) ** (2 * draws[0] - 1)
        base = base_size((sample.image.height, sample.image.width), size, factor=factor)
        if base != (sample.image.height, sample.image.width):
            sample = resize(sample, base)
        sample = cut_window(sample, size, (draws[1], draws[2]), fill=fill_of(self.preprocessing))
        sample = move(sample, self.how, seed=self.seed, epoch=epoch, index=index, fill=fill_of(self.preprocessing))
        assert sample.annotations.mask is not None
        return to_channels(sample.image, self.preprocessing.channels), to_numbers(sample.annotations.mask)

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[Crop]) -> DenseBatch:
        images, masks = (np.stack(parts) for parts in zip(*samples, strict=True))
        numbers = torch.tensor(indices, dtype=torch.int64)
        return DenseBatch(normalize(to_unit(images), self.preprocessing), torch.from_numpy(masks), numbers)


class WholeSource(Samples[WholeImage, WholeBatch]):
    """Images one after the other, always alike."""

    def __init__(self, split: Split, preprocessing: Preprocessing, *, classes: int) -> None:
        self.split, self.preprocessing, self.classes = split, preprocessing, classes

    def sample(self, epoch: int, index: int) -> WholeImage:
        size, name = self.preprocessing.size, self.split.name(index)
        stored = self.split.read(index, target=size)
        mask = check_mask(annotations_of(self.split, index), name, (stored.height, stored.width), classes=self.classes)
        image = to_base(to_channels(stored, self.preprocessing.channels), self.preprocessing)
        return WholeImage(image, torch.from_numpy(to_numbers(mask)), index, name)

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[WholeImage]) -> WholeBatch:
        return WholeBatch(list(samples), torch.tensor(indices, dtype=torch.int64))


def crop_loader(
    split: Split, preprocessing: Preprocessing, *, classes: int, batch: int, how: Movement, zoom: float = 0.0, seed: int = 0,
    workers: int = 0, on_bad: OnBad | None = None, rank: int = 0, world: int = 1,
) -> Loader[DenseBatch]:  # fmt: skip
    """A crop of each image per epoch."""
    source = CropSource(split, preprocessing, classes=classes, how=how, zoom=zoom, seed=seed)
    order = PlainOrder(len(split), batch=batch, shuffle=True, seed=seed, rank=rank, world=world)
    return Loader(source, order, workers=workers, on_bad=on_bad)


def whole_loader(
    split: Split, preprocessing: Preprocessing, *, classes: int, batch: int = WHOLE, workers: int = 0,
    on_bad: OnBad | None = None, rank: int = 0, world: int = 1,
) -> Loader[WholeBatch]:  # fmt: skip
    """Every image once, whole."""
    order = PlainOrder(len(split), batch=batch * world, rank=rank, world=world)
    return Loader(WholeSource(split, preprocessing, classes=classes), order, workers=workers, on_bad=on_bad)


def open_masked(
    source: str,
    *,
    seed: int,
    limit: float,
    progress: Counting,
    image_size: tuple[int, int] | None = None,
    known: Sequence[BadFile] | None = None,
    known_copies: Copies = NO_COPIES,
    divide: bool = True,
    val_share: float | None = None,
    ignore: Numbers | None = None,
) -> tuple[DataSet, BadFiles]:
    """Images with masks without those that cannot be learned from, and those; as `data.clean.open_clean`."""
    data = find_masked(source, image_size=image_size, ignore=ignore)
    divided = by_us(data, source, divide=divide, anew=val_share is not None)
    bad, copies = try_images(data, limit=limit, progress=progress, known=known, known_copies=known_copies, divided=divided)
    if known is None:
        with progress.counting("reading every mask once") as counted:
            bad.files |= {file.name: file for file in find_bad_masks(data, progress=counted)}
        bad.check()
    data = replace(leave_out(data, bad.names("before")), copies=copies)
    return divide_data(data, seed=seed, val_share=val_share) if divide else data, bad


def mask_loaders(
    options: Options, data: DataSet, model: Segmenter, bad: BadFiles, world: World
) -> tuple[Loader[DenseBatch], Loader[WholeBatch]]:
    """Crops to learn from, and whole images to validate on."""
    assert options.batch_size != "auto"
    assert options.rotate != "auto"
    assert options.zoom != "auto"
    assert options.color_jitter != "auto"
    shared: dict[str, Any] = {
        "classes": len(data.classes), "workers": options.workers, "rank": world.rank, "world": world.size,
    }  # fmt: skip
    training = crop_loader(
        data["train"],
        model.preprocessing,
        batch=options.batch_size,
        how=Movement(flip=bool(options.flip), rotate=options.rotate, color=options.color_jitter),
        zoom=options.zoom,
        seed=options.seed,
        on_bad=partial(note_bad, bad, "train"),
        **shared,
    )
    return training, whole_loader(data["val"], model.preprocessing, on_bad=partial(note_bad, bad, "val"), **shared)


def counts_of(data: DataSet) -> Counts:
    """Of the training images, whose masks are read when it is first called, and only then."""
    return cache(partial(count_pixels, data["train"], len(data.classes)))


def pixel_weights(kind: str, counts: Counts) -> Tensor | None:
    """What a pixel of each class counts, by the masks of some training images; None: all alike."""
    if kind == "none":
        return None
    weights = torch.from_numpy(balanced_weights(*counts()))
    return weights.sqrt() if kind == "softened" else weights


def choose_weights(counts: Counts) -> str:
    """Softened where a class has UNEQUAL times the pixels of another: else what is rare is never predicted (docs/tasks/segment.md)."""
    pixels, _ = counts()
    met = pixels[pixels > 0]
    return "softened" if len(met) and met.max() > UNEQUAL * met.min() else "none"


def count_pixels(train: Split, classes: int) -> tuple[Int64[np.ndarray, "k"], Int64[np.ndarray, "k"]]:
    """The pixels of each class in some of the images, and all pixels of those that it is in."""
    pixels, around = np.zeros(classes, dtype=np.int64), np.zeros(classes, dtype=np.int64)
    for index in spread(len(train), COUNTED):
        try:
            mask = check_mask(annotations_of(train, index), train.name(index), (1, 1), classes=classes)
        except ImageError:  # gone since it was tried
            continue
        numbers = to_numbers(mask)
        counts = np.bincount(numbers[numbers != IGNORE], minlength=classes)
        pixels += counts
        around[counts > 0] += counts.sum()
    return pixels, around


def check_classes(data: DataSet, model: Segmenter) -> None:
    """Masks must number classes as the model does; those with numbers for names are taken as they are, unless the model's are, too."""
    known, found = labels_of(model), data.classes
    named = not all_numbers(found) or all_numbers(known)
    wrong = next((pair for pair in zip(found, known, strict=False) if pair[0] != pair[1]), None) if named else None
    if wrong is not None:
        raise VitrailError(f"{data.name}: its class {wrong[0]!r} has the number of {wrong[1]!r} in the model")
    if len(found) > len(known):
        raise VitrailError(
            f"{data.name}: {len(found)} classes, of which the model knows {len(known)}; --ignore-index names what is none"
        )


def ignored_by(model: Segmenter) -> Numbers | None:
    """The numbers of masks that are no class of a model that calls its classes by numbers; None: by name."""
    labels = labels_of(model)
    return tuple(sorted(set(range(max(map(int, labels)))) - set(map(int, labels)))) if all_numbers(labels) else None


def all_numbers(names: Iterable[str]) -> bool:
    return all(name.isdigit() for name in names)


def labels_of(model: Segmenter) -> tuple[str, ...]:
    return model.labels or tuple(map(str, range(model.num_classes)))
