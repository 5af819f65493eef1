"""Images with labels as batches, augmented and mixed: what every task reads that has one size of images and one label for each.

b batch, ch channels, h w image, k classes
"""

from collections.abc import Sequence
from typing import NamedTuple, Unpack

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from vitrail.data.augmentation import Augmentation, augment
from vitrail.data.cache import Cache
from vitrail.data.dataset import Split, stored_images
from vitrail.data.loader import B, Loader, OnBad, Read, Samples
from vitrail.data.mixing import Mixing, mix
from vitrail.data.order import COPY, Passes, PlainOrder
from vitrail.data.transforms import normalize, read_fitted, to_unit
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing


class Batch(NamedTuple):
    """What a classification task reads; `indices` are the images' numbers in their split."""

    images: Float[Tensor, "b ch h w"]
    labels: Int[Tensor, "b"] | Bool[Tensor, "b k"] | Float[Tensor, "b k"]  # shares of each class where images are mixed
    indices: Int[Tensor, "b"]


class ImageReader(Samples[np.ndarray, B]):
    """Reads the images of a split as bytes at the model's size. Subclasses make batches of them."""

    def __init__(self, split: Split, preprocessing: Preprocessing, *, seed: int = 0, cache: Cache | None = None) -> None:
        self.split, self.preprocessing, self.seed, self.cache = split, preprocessing, seed, cache

    def sample(self, epoch: int, index: int) -> UInt8[np.ndarray, "h w ch"]:
        """From the cache if it is there; nothing is random about it yet."""
        index %= COPY
        image = None if self.cache is None else self.cache.get(index)
        if image is None:
            image = read_fitted(self.split, index, self.preprocessing)
            if self.cache is not None:
                self.cache.put(index, image)
        return image

    def samples(self, epoch: int, indices: Sequence[int]) -> Read[np.ndarray]:
        """Each image is read once, however many copies are wanted; those in memory at the model's size all at once."""
        stored = self.find_stored(indices)
        if stored is not None:
            return Read(indices, stored)
        read = super().samples(epoch, list(dict.fromkeys(index % COPY for index in indices)))
        images: dict[int, np.ndarray] = dict(zip(read.indices, read.samples, strict=True))
        kept = [index for index in indices if index % COPY in images]
        return Read(kept, [images[index % COPY] for index in kept], read.bad)

    def find_stored(self, indices: Sequence[int]) -> UInt8[np.ndarray, "b h w ch"] | None:
        shape = (*self.preprocessing.size, self.preprocessing.channels)
        return stored_images(self.split, np.array(indices, dtype=np.int64) % COPY, shape)

    def labels(self, indices: Int[np.ndarray, "b"]) -> Int[Tensor, "b"] | Bool[Tensor, "b k"]:
        return torch.from_numpy(self.split.labels[indices])


class ImageSource(ImageReader[Batch]):
    """A split behind its preprocessing. A batch is augmented and mixed as a whole, where it is made."""

    def __init__(
        self,
        split: Split,
        preprocessing: Preprocessing,
        *,
        how: Augmentation | None = None,
        seed: int = 0,
        cache: Cache | None = None,
        mixing: Mixing | None = None,
        classes: int | None = None,
    ) -> None:
        super().__init__(split, preprocessing, seed=seed, cache=cache)
        self.how, self.mixing, self.classes = how or Augmentation(), mixing or Mixing(), classes
        if self.mixing and split.labels.ndim == 1 and classes is None:
            raise VitrailError("mixing images of one label each needs the number of classes, got None")

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[np.ndarray] | np.ndarray) -> Batch:
        numbers = np.array(indices, dtype=np.int64)
        plain = numbers % COPY
        images = augment(stack_unit(samples), self.how, seed=self.seed, epoch=epoch, indices=numbers)
        images, labels = normalize(images, self.preprocessing), self.labels(plain)
        if self.mixing:
            images, labels = mix(images, self.shares(labels), self.mixing, seed=self.seed, epoch=epoch, indices=numbers)
        return Batch(images, labels, torch.from_numpy(plain))

    def shares(self, labels: Int[Tensor, "b"] | Bool[Tensor, "b k"]) -> Float[Tensor, "b k"]:
        """Labels as numbers that can be mixed: 1 for each class an image has, 0 for the others."""
        if labels.ndim == 2:
            return labels.float()
        assert self.classes is not None
        return F.one_hot(labels.long(), self.classes).float()


def stack_unit(samples: Sequence[np.ndarray] | np.ndarray) -> Float[Tensor, "b ch h w"]:
    """Images of one size (h w ch), as bytes, to one tensor in [0, 1]."""
    return to_unit(samples if isinstance(samples, np.ndarray) else np.stack(samples))


def image_loader(
    split: Split,
    preprocessing: Preprocessing,
    *,
    batch: int,
    how: Augmentation | None = None,
    seed: int = 0,
    workers: int = 0,
    cache: Cache | None = None,
    on_bad: OnBad | None = None,
    mixing: Mixing | None = None,
    classes: int | None = None,
    balanced: bool = False,
    **passes: Unpack[Passes],
) -> Loader[Batch]:
    """The images of a split with their labels."""
    source = ImageSource(split, preprocessing, how=how, seed=seed, cache=cache, mixing=mixing, classes=classes)
    order = PlainOrder(len(split), batch=batch, seed=seed, balance=split.labels if balanced else None, **passes)
    return Loader(source, order, workers=workers, on_bad=on_bad)
