"""Batches in an order that depends on (seed, epoch) only, from any point on, whatever the number of workers.

b batch, ch channels, h w picture, k classes
"""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from vitrail.data.augmentation import Augmentation, augment
from vitrail.data.balancing import balanced_order
from vitrail.data.cache import Cache
from vitrail.data.dataset import ArraySplit, Split, whole_of
from vitrail.data.images import PictureError
from vitrail.data.transforms import normalize, read_fitted, to_unit
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing

Key = tuple[int, int]  # epoch, index


class Batch(NamedTuple):
    """What a classification task reads; `indices` are the pictures' numbers in their split."""

    images: Float[Tensor, "b ch h w"]
    labels: Int[Tensor, "b"] | Bool[Tensor, "b k"]
    indices: Int[Tensor, "b"]


class Fetched(NamedTuple):
    """What a worker hands over: a batch, without the pictures that could not be read; None if that is all of them.

    What is wrong is handed back, not raised: a worker would wrap it into a traceback of many lines.
    """

    batch: Batch | None
    bad: tuple[PictureError, ...] = ()


class Pictures(Dataset[Fetched]):
    """A split behind its preprocessing; fetches whole batches, so that augmentation runs on tensors, in the worker."""

    def __init__(
        self, split: Split, preprocessing: Preprocessing, *, how: Augmentation, seed: int, cache: Cache | None = None
    ) -> None:
        self.split, self.preprocessing, self.how, self.seed, self.cache = split, preprocessing, how, seed, cache

    def __len__(self) -> int:
        return len(self.split)

    def __getitems__(self, keys: list[Key]) -> Fetched:
        pictures: list[np.ndarray] = []
        found: list[int] = []
        bad: list[PictureError] = []
        for _, index in keys:
            try:
                pictures.append(self.read(index))
                found.append(index)
            except PictureError as error:
                bad.append(error)
        if not pictures:
            return Fetched(None, tuple(bad))
        indices = np.array(found, dtype=np.int64)
        images = augment(to_unit(np.stack(pictures)), self.how, seed=self.seed, epoch=keys[0][0], indices=indices)
        labels = torch.from_numpy(self.split.labels[indices])
        return Fetched(Batch(normalize(images, self.preprocessing), labels, torch.from_numpy(indices)), tuple(bad))

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

    Of every batch process `rank` of `world` takes its share, so that all of them together take the same steps as one would.
    """

    def __init__(
        self, labels: np.ndarray, *, batch: int, shuffle: bool, seed: int, balanced: bool = False, rank: int = 0, world: int = 1
    ) -> None:
        if not 0 <= rank < world:
            raise VitrailError(f"rank must be from 0 to world - 1, got rank {rank} of {world}")
        if shuffle and len(labels) < world:
            raise VitrailError(f"{len(labels)} pictures cannot be shared among {world} processes")
        if shuffle and batch % world:
            raise VitrailError(f"a batch of {batch} cannot be shared equally among {world} processes")
        self.labels, self.batch, self.shuffle, self.seed, self.balanced = labels, batch, shuffle, seed, balanced
        self.rank, self.world = rank, world
        self.epoch = self.start = 0

    def __len__(self) -> int:
        """Batches an epoch. In training the last one is dropped if it is not full, unless it is the only one."""
        return max(1, len(self.labels) // self.batch) if self.shuffle else -(-len(self.labels) // self.batch)

    def permutation(self, epoch: int) -> np.ndarray:
        """The whole epoch's pictures in their order."""
        if not self.shuffle:
            return np.arange(len(self.labels))
        generator = np.random.Generator(np.random.PCG64([self.seed, epoch]))
        return balanced_order(self.labels, generator) if self.balanced else generator.permutation(len(self.labels))

    def __iter__(self) -> Iterator[list[Key]]:
        epoch = self.epoch  # kept: another pass may begin before this one ends
        order = self.permutation(epoch)
        for number in range(self.start, len(self)):
            whole = order[number * self.batch : (number + 1) * self.batch]
            share = whole[self.rank :: self.world]
            if len(share):
                yield [(epoch, int(index)) for index in share]


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
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.split, self.on_bad = split, on_bad
        self.order = Order(split.labels, batch=batch, shuffle=shuffle, seed=seed, balanced=balanced, rank=rank, world=world)
        self.loader: DataLoader[Fetched] = DataLoader(
            Pictures(split, preprocessing, how=how or Augmentation(), seed=seed, cache=cache),
            batch_sampler=self.order,
            collate_fn=_as_is,
            num_workers=workers,
            persistent_workers=workers > 0,
            worker_init_fn=_prepare_worker,
            generator=torch.Generator(),  # its own, so that iterating draws nothing from the global one
        )

    def __len__(self) -> int:
        return len(self.order)

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        self.order.epoch, self.order.start = epoch, start
        for batch, bad in self.loader:
            for error in bad:
                if self.on_bad is None:
                    raise PictureError(
                        error.name, error.reason
                    )  # a new one: a cycle through this frame would delay the workers' end
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
