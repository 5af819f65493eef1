"""Batches in an order that depends on (seed, epoch) only, from any point on, whatever the number of workers.

b batch, ch channels, h w picture, k classes
"""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from vitrail.data.ahead import ahead
from vitrail.data.augmentation import Augmentation, augment
from vitrail.data.balancing import balanced_order
from vitrail.data.cache import Cache
from vitrail.data.dataset import ArraySplit, Split, stored_pictures, whole_of
from vitrail.data.images import PictureError
from vitrail.data.mixing import Mixing, mix
from vitrail.data.transforms import normalize, read_fitted, to_unit
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing
from vitrail.ragged import Ragged

COPY = 2**40  # more than a split has pictures
# Epoch, and index + COPY · (which of its repetitions): together the name of what is random about a picture.
Key = tuple[int, int]


class Batch(NamedTuple):
    """What a classification task reads; `indices` are the pictures' numbers in their split."""

    images: Float[Tensor, "b ch h w"]
    labels: Int[Tensor, "b"] | Bool[Tensor, "b k"] | Float[Tensor, "b k"]  # shares of each class where pictures are mixed
    indices: Int[Tensor, "b"]


class PackedBatch(NamedTuple):
    """The same of pictures of different sizes, which `data.packing` makes."""

    images: Ragged
    labels: Int[Tensor, "b"] | Bool[Tensor, "b k"]
    indices: Int[Tensor, "b"]

    @property
    def weight(self) -> int:
        """Pictures: processes that share a batch may have one more or less than another."""
        return len(self.images)


class Fetched(NamedTuple):
    """What a worker hands over: a batch, without the pictures that could not be read; None if that is all of them.

    What is wrong is handed back, not raised: a worker would wrap it into a traceback of many lines.
    """

    batch: Any  # a Batch or a PackedBatch
    bad: tuple[PictureError, ...] = ()


class Pictures(Dataset[Fetched]):
    """A split behind its preprocessing; fetches whole batches, so that augmentation runs on tensors, in the worker."""

    def __init__(
        self,
        split: Split,
        preprocessing: Preprocessing,
        *,
        how: Augmentation,
        seed: int,
        cache: Cache | None = None,
        mixing: Mixing | None = None,
        classes: int | None = None,
    ) -> None:
        self.split, self.preprocessing, self.how, self.seed, self.cache = split, preprocessing, how, seed, cache
        self.mixing, self.classes = mixing or Mixing(), classes
        if self.mixing and split.labels.ndim == 1 and classes is None:
            raise VitrailError("mixing pictures of one label each needs the number of classes, got None")

    def __len__(self) -> int:
        return len(self.split)

    def __getitems__(self, keys: list[Key]) -> Fetched:
        found, bad = self.fetch(keys)
        if found is None:
            return Fetched(None, bad)
        (images, numbers), epoch = found, keys[0][0]
        indices = numbers % COPY
        images = augment(images, self.how, seed=self.seed, epoch=epoch, indices=numbers)
        images, labels = normalize(images, self.preprocessing), torch.from_numpy(self.split.labels[indices])
        if self.mixing:
            images, labels = mix(images, self.shares(labels), self.mixing, seed=self.seed, epoch=epoch, indices=numbers)
        return Fetched(Batch(images, labels, torch.from_numpy(indices)), bad)

    def fetch(
        self, keys: list[Key]
    ) -> tuple[tuple[Float[Tensor, "b ch h w"], Int[np.ndarray, "b"]] | None, tuple[PictureError, ...]]:
        """The pictures that can be read, in [0, 1], with their numbers (see `Key`); and what is wrong with the others."""
        numbers = np.array([number for _, number in keys], dtype=np.int64)
        shape = (*self.preprocessing.size, self.preprocessing.channels)
        arrays, bad = stored_pictures(self.split, numbers % COPY, shape), list[PictureError]()
        if arrays is None:
            pictures, bad = self.read_all(numbers % COPY)
            if not pictures:
                return None, tuple(bad)
            numbers = numbers[[index in pictures for index in (numbers % COPY).tolist()]]
            arrays = np.stack([pictures[index] for index in (numbers % COPY).tolist()])
        return (to_unit(arrays), numbers), tuple(bad)

    def shares(self, labels: Int[Tensor, "b"] | Bool[Tensor, "b k"]) -> Float[Tensor, "b k"]:
        """Labels as numbers that can be mixed: 1 for each class a picture has, 0 for the others."""
        if labels.ndim == 2:
            return labels.float()
        assert self.classes is not None
        return F.one_hot(labels.long(), self.classes).float()

    def read_all(self, indices: Int[np.ndarray, "b"]) -> tuple[dict[int, np.ndarray], list[PictureError]]:
        """Pictures by number, each read once, however many copies are wanted; and what is wrong with the others."""
        pictures, bad = dict[int, np.ndarray](), list[PictureError]()
        for index in dict.fromkeys(indices.tolist()):
            try:
                pictures[index] = self.read(index)
            except PictureError as error:
                bad.append(error)
        return pictures, bad

    def read(self, index: int) -> np.ndarray:
        """The picture at the model's size, from the cache if it is there."""
        picture = None if self.cache is None else self.cache.get(index)
        if picture is None:
            picture = read_fitted(self.split, index, self.preprocessing)
            if self.cache is not None:
                self.cache.put(index, picture)
        return picture


class Order(Sampler[list[Key]]):
    """Batches of (epoch, index). `epoch` and `start` are set before each pass.

    With `repeats` a batch holds each of its pictures that many times, differently augmented, and an epoch as many batches as
    without, of another part of the pictures each time  [Hoffer+ 2020, batch augmentation].

    Of every batch process `rank` of `world` takes its share, so that all of them together take the same steps as one would.
    """

    def __init__(
        self,
        labels: np.ndarray,
        *,
        batch: int,
        shuffle: bool,
        seed: int,
        balanced: bool = False,
        repeats: int = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if not 0 <= rank < world:
            raise VitrailError(f"rank must be from 0 to world - 1, got rank {rank} of {world}")
        if shuffle and len(labels) < world:
            raise VitrailError(f"{len(labels)} pictures cannot be shared among {world} processes")
        if shuffle and batch % world:
            raise VitrailError(f"a batch of {batch} cannot be shared equally among {world} processes")
        if repeats < 1:
            raise VitrailError(f"a picture cannot come {repeats} times in a batch: repeats must be at least 1")
        if repeats > 1 and not shuffle:
            raise VitrailError(f"pictures are repeated in training only, where they are shuffled; got repeats {repeats}")
        if batch % repeats:
            raise VitrailError(f"a batch of {batch} cannot hold each of its pictures {repeats} times")
        self.labels, self.batch, self.shuffle, self.seed, self.balanced = labels, batch, shuffle, seed, balanced
        self.repeats, self.rank, self.world = repeats, rank, world
        self.epoch = self.start = 0

    def __len__(self) -> int:
        """Batches an epoch. In training the last one is dropped if it is not full, unless it is the only one."""
        return max(1, len(self.labels) // self.batch) if self.shuffle else -(-len(self.labels) // self.batch)

    def permutation(self, epoch: int) -> np.ndarray:
        """The whole epoch's pictures in their order, as numbers of a `Key`."""
        if not self.shuffle:
            return np.arange(len(self.labels))
        generator = np.random.Generator(np.random.PCG64([self.seed, epoch]))
        order = balanced_order(self.labels, generator) if self.balanced else generator.permutation(len(self.labels))
        if self.repeats == 1:
            return order
        # The copies of a picture stand side by side: in one batch, and spread over the processes that share it.
        copies = order[: -(-len(order) // self.repeats), None] + COPY * np.arange(self.repeats)
        return copies.ravel()[: len(order)]

    def deal(self, epoch: int) -> list[np.ndarray]:
        """The whole batches of an epoch."""
        order = self.permutation(epoch)
        return [order[step * self.batch : (step + 1) * self.batch] for step in range(len(self))]

    def __iter__(self) -> Iterator[list[Key]]:
        epoch = self.epoch  # kept: another pass may begin before this one ends
        for whole in self.deal(epoch)[self.start :]:
            share = whole[self.rank :: self.world]
            if len(share):
                yield [(epoch, int(number)) for number in share]


class Loader:
    """Passes over a split, each from any batch on. A picture that cannot be read is left out of its batch and told to `on_bad`."""

    def __init__(
        self,
        split: Split,
        preprocessing: Preprocessing,
        *,
        batch: int,
        shuffle: bool = False,
        balanced: bool = False,
        how: Augmentation | None = None,
        seed: int = 0,
        workers: int = 0,
        cache: Cache | None = None,
        on_bad: Callable[[PictureError], None] | None = None,
        mixing: Mixing | None = None,
        classes: int | None = None,
        repeats: int = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        order = Order(
            split.labels, batch=batch, shuffle=shuffle, seed=seed, balanced=balanced, repeats=repeats, rank=rank, world=world
        )
        pictures = Pictures(
            split, preprocessing, how=how or Augmentation(), seed=seed, cache=cache, mixing=mixing, classes=classes
        )
        self.connect(order, pictures, workers=workers, on_bad=on_bad)

    def connect(self, order: Order, pictures: Any, *, workers: int, on_bad: Callable[[PictureError], None] | None) -> None:
        """Who says which pictures come next, who makes batches of them, and in how many processes."""
        self.split, self.order, self.pictures, self.on_bad = pictures.split, order, pictures, on_bad
        self.loader: DataLoader[Fetched] | None = None
        if workers:
            self.loader = DataLoader(
                self.pictures,
                batch_sampler=self.order,
                collate_fn=_as_is,
                num_workers=workers,
                persistent_workers=True,
                worker_init_fn=_prepare_worker,
                generator=torch.Generator(),  # its own, so that iterating draws nothing from the global one
            )

    def __len__(self) -> int:
        return len(self.order)

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[Any]:
        self.order.epoch, self.order.start = epoch, start
        for batch, bad in ahead(self.pictures.__getitems__, self.order) if self.loader is None else self.loader:
            for error in bad:
                if self.on_bad is None:
                    # A new one: a cycle through this frame would delay the workers' end.
                    raise PictureError(error.name, error.reason)
                self.on_bad(error)
            if batch is not None:
                yield batch
            elif self.order.shuffle:  # a step cannot be left out: the schedule and exact resumption count them
                raise VitrailError(f"none of the {len(bad)} pictures of a batch can be read; {bad[0]}")


def _prepare_worker(worker: int) -> None:
    """Ctrl-C and SIGTERM often go to the whole group: the main process saves and then ends its workers itself."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _as_is(batch: Any) -> Any:
    return batch


def choose_workers(split: Split) -> int:
    """None for pictures in memory; for those that are read or drawn all cores but one."""
    return 0 if isinstance(whole_of(split), ArraySplit) else max(1, (os.cpu_count() or 1) - 1)
