"""Batches for a classifier, of images of one size or packed with their own aspect, and labels numbered as it numbers them.

b batch, n images, h w one image, ch channels, k classes
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from vitrail.data.augmentation import Augmentation, augment
from vitrail.data.bad_files import BadFiles
from vitrail.data.cache import Cache
from vitrail.data.dataset import ArraySplit, DataSet, FileSplit, Part, Split, origin
from vitrail.data.image_source import ImageReader, image_loader, stack_unit
from vitrail.data.images import ImageError, find_orientation, open_image
from vitrail.data.loader import Loader, OnBad
from vitrail.data.mixing import Mixing
from vitrail.data.order import COPY, PackedOrder, Passes
from vitrail.data.transforms import aspect_size, fit_image, normalize
from vitrail.errors import VitrailError
from vitrail.learn.losses.balance import class_weights
from vitrail.learn.training.world import World
from vitrail.models.classifier import Classifier
from vitrail.preprocessing import Preprocessing
from vitrail.ragged import Ragged
from vitrail.tasks.classify.options import Options
from vitrail.tasks.image_task import image_loaders

SIDEWAYS = 5  # EXIF's orientations from here on swap height and width


class PackedBatch(NamedTuple):
    """Images of different sizes, which a model reads as one packed sequence  [Dehghani+ 2023]."""

    images: Ragged
    labels: Int[Tensor, "b"] | Bool[Tensor, "b k"]
    indices: Int[Tensor, "b"]

    @property
    def weight(self) -> int:
        """Images: processes that share a batch may have one more or less than another."""
        return len(self.images)


class PackedSource(ImageReader[PackedBatch]):
    """A split whose images are brought to `sizes` of their own."""

    def __init__(
        self,
        split: Split,
        preprocessing: Preprocessing,
        sizes: Int[np.ndarray, "n 2"],
        *,
        how: Augmentation | None = None,
        seed: int = 0,
        cache: Cache | None = None,
    ) -> None:
        super().__init__(split, preprocessing, seed=seed, cache=cache)
        self.sizes, self.how = sizes, how or Augmentation()

    def find_stored(self, indices: Sequence[int]) -> None:
        """None: images in memory are brought to their sizes, too."""

    def sample(self, epoch: int, index: int) -> UInt8[np.ndarray, "h w ch"]:
        """The image at its size, from the cache if it is there; places in the cache are of the largest size."""
        index %= COPY
        height, width = (int(side) for side in self.sizes[index])
        channels, cached = self.preprocessing.channels, None if self.cache is None else self.cache.get(index)
        if cached is not None:
            return cached.reshape(-1, channels)[: height * width].reshape(height, width, channels)
        image = self.split.read(index, target=self.preprocessing.size)
        turned = (image.height > image.width and height < width) or (image.height < image.width and height > width)
        size = (width, height) if turned else (height, width)  # a PNG may say behind its pixels which way is up
        fitted = fit_image(image, replace(self.preprocessing, size=size, fit="squash"))
        if self.cache is not None and not turned:
            room = np.zeros((self.preprocessing.size[0] * self.preprocessing.size[1], channels), np.uint8)
            room[: height * width] = fitted.reshape(-1, channels)
            self.cache.put(index, room.reshape(*self.preprocessing.size, channels))
        return fitted

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[np.ndarray]) -> PackedBatch:
        images = []
        for index, sample in zip(indices, samples, strict=True):  # each by itself, so that it comes out the same in any company
            unit = stack_unit([sample])
            changed = augment(unit, self.how, seed=self.seed, epoch=epoch, indices=np.array([index], dtype=np.int64))
            images.append(normalize(changed, self.preprocessing)[0])
        plain = np.array(indices, dtype=np.int64) % COPY
        return PackedBatch(Ragged.join(images), self.labels(plain), torch.from_numpy(plain))


def packed_loader(
    split: Split,
    preprocessing: Preprocessing,
    *,
    batch: int,
    multiple: int,
    prefix: int = 0,
    how: Augmentation | None = None,
    seed: int = 0,
    workers: int = 0,
    cache: Cache | None = None,
    on_bad: OnBad | None = None,
    balanced: bool = False,
    **passes: Unpack[Passes],
) -> Loader[PackedBatch]:
    """Images that keep their aspect. A batch has at most the tokens of `batch` images of the model's size.

    `multiple` is the side of a patch, `prefix` how many tokens an image has beside its patches.
    """
    sizes = packed_sizes(split, preprocessing.size, multiple=multiple)
    lengths = sizes.prod(axis=1) // multiple**2 + prefix
    full = preprocessing.size[0] * preprocessing.size[1] // multiple**2 + prefix
    balance = split.labels if balanced else None
    order = PackedOrder(lengths, budget=batch * full, batch=batch, seed=seed, balance=balance, **passes)
    source = PackedSource(split, preprocessing, sizes, how=how, seed=seed, cache=cache)
    return Loader(source, order, workers=workers, on_bad=on_bad)


def packed_sizes(split: Split, largest: tuple[int, int], *, multiple: int) -> Int[np.ndarray, "n 2"]:
    """What each image is resized to (see `aspect_size`): height, width."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    rows = np.empty((len(split), 2), dtype=np.int64)
    for index in range(len(split)):
        size = stored_size(split, index) or largest
        if size not in found:
            found[size] = aspect_size(size, largest, multiple=multiple)
        rows[index] = found[size]
    return rows


def stored_size(split: Split, index: int) -> tuple[int, int] | None:
    """Height and width of an image, upright, from the beginning of its file; None where it cannot be read, as will be reported when it is."""
    split, index = origin(split, index)
    if isinstance(split, ArraySplit):
        return int(split.images.shape[1]), int(split.images.shape[2])
    try:
        if split.encoded:
            try:
                with open_image(split.paths[index] if isinstance(split, FileSplit) else split.content(index)) as image:
                    sideways = find_orientation(image) >= SIDEWAYS
                    return image.size if sideways else (image.height, image.width)
            except ImageError:
                pass  # a format of the split's own (or a broken file): the split has the last word
        whole = split.read(index)
        return whole.height, whole.width
    except VitrailError:
        return None


def packing(model: Classifier) -> dict[str, Any] | None:
    """What a loader of images in their own aspect must know of the model; None where it takes all at one size."""
    if model.preprocessing.fit != "aspect":
        return None
    return {"multiple": model.size_multiple, "prefix": model.config.prefix}


def loader_for(model: Classifier) -> Callable[..., Loader[Any]]:
    """What makes a loader of images as the model takes them."""
    packed = packing(model)
    return image_loader if packed is None else partial(packed_loader, **packed)


def class_loaders(
    options: Options, data: DataSet, model: Classifier, bad: BadFiles, world: World
) -> tuple[Loader[Any], Loader[Any]]:
    """Images with classes, which may be mixed, balanced and repeated."""
    drawn: dict[str, Any] = {"balanced": options.balance == "sampling", "repeats": options.repeats}
    if packing(model) is not None:
        return image_loaders(options, data, model.preprocessing, bad, world, make=loader_for(model), **drawn)
    assert options.mixup != "auto"
    assert options.cutmix != "auto"
    mixing = Mixing(mixup=options.mixup, cutmix=options.cutmix)
    drawn |= {"mixing": mixing if mixing.mixup or mixing.cutmix else None, "classes": len(data.classes)}
    return image_loaders(options, data, model.preprocessing, bad, world, **drawn)


def balancing_weights(data: DataSet) -> Tensor:
    """Of each class's images in the loss."""
    return torch.from_numpy(class_weights(data["train"].labels, len(data.classes)))


def match_labels(data: DataSet, model: Classifier) -> DataSet:
    """The data with its labels numbered as the model numbers them."""
    labels: tuple[str, ...] | None = model.labels
    if not model.num_classes:
        raise VitrailError("this model has no classifier: it was made with num_classes=0")
    if labels is None and len(data.classes) != model.num_classes:
        raise VitrailError(
            f"{data.name}: has {len(data.classes)} classes; the model has {model.num_classes} and does not say which"
        )
    if data.multi_label != model.multi_label:
        several, one = "any number of labels per image", "one label per image"
        raise VitrailError(
            f"{data.name}: has {several if data.multi_label else one}; the model gives {several if model.multi_label else one}"
        )
    if labels is None or data.classes == labels:
        return data
    unknown = [name for name in data.classes if name not in labels]
    if unknown:
        raise VitrailError(
            f"{data.name}: the model does not know the class {unknown[0]!r}; it knows {', '.join(labels[:8])}{' …' if labels[8:] else ''}"
        )
    numbers = np.array([labels.index(name) for name in data.classes])
    splits: dict[Any, Split] = {name: renumber(split, numbers, len(labels)) for name, split in data.splits.items()}
    return DataSet(name=data.name, classes=labels, splits=splits, notes=data.notes)


def renumber(split: Split, numbers: np.ndarray, classes: int) -> Split:
    """A split whose classes another dataset counts in another order: class i becomes numbers[i] of `classes`."""
    if split.labels.ndim == 1:
        labels = numbers[split.labels]
    else:
        labels = np.zeros((len(split), classes), dtype=bool)
        labels[:, numbers] = split.labels
    return Part(split, np.arange(len(split)), labels=labels)


def leave_out_names(split: Split, names: set[str]) -> Split:
    """A split without the images of these names."""
    if not names:
        return split
    return Part(split, np.array([i for i in range(len(split)) if split.name(i) not in names], dtype=np.int64))
