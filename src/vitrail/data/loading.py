"""Batches in an order that depends on (seed, epoch) only, from any point on, whatever the number of workers.

b batch, ch channels, h w picture
"""

import os
import signal
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from vitrail.data.augmentation import Augmentation, augment
from vitrail.data.dataset import ArraySplit, Part, Split
from vitrail.data.transforms import fit_picture, normalize, to_unit
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing

Key = tuple[int, int]  # epoch, index


class Batch(NamedTuple):
    """What a classification task reads; `indices` are the pictures' numbers in their split."""

    images: Float[Tensor, "b ch h w"]
    labels: Int[Tensor, "b"]
    indices: Int[Tensor, "b"]


class Pictures(Dataset[Batch | VitrailError]):
    """A split behind its preprocessing; fetches whole batches, so that augmentation runs on tensors, in the worker.

    What is wrong with a picture is handed back, not raised: a worker would wrap it into a traceback of many lines.
    """

    def __init__(self, split: Split, preprocessing: Preprocessing, *, how: Augmentation, seed: int) -> None:
        self.split, self.preprocessing, self.how, self.seed = split, preprocessing, how, seed

    def __len__(self) -> int:
        return len(self.split)

    def __getitems__(self, keys: list[Key]) -> Batch | VitrailError:
        indices = np.array([index for _, index in keys], dtype=np.int64)
        try:
            samples = [self.split[int(index)] for index in indices]
        except VitrailError as error:
            return error
        images = to_unit(np.stack([fit_picture(picture, self.preprocessing) for picture, _ in samples]))
        images = augment(images, self.how, seed=self.seed, epoch=keys[0][0], indices=indices)
        labels = torch.tensor([label for _, label in samples])
        return Batch(normalize(images, self.preprocessing), labels, torch.from_numpy(indices))


class Order(Sampler[list[Key]]):
    """Batches of (epoch, index). `epoch` and `start` are set before each pass."""

    def __init__(self, count: int, *, batch: int, shuffle: bool, seed: int) -> None:
        self.count, self.batch, self.shuffle, self.seed = count, batch, shuffle, seed
        self.epoch = self.start = 0

    def __len__(self) -> int:
        """Batches an epoch. In training the last one is dropped if it is not full, unless it is the only one."""
        return max(1, self.count // self.batch) if self.shuffle else -(-self.count // self.batch)

    def __iter__(self) -> Iterator[list[Key]]:
        epoch, order = self.epoch, np.arange(self.count)  # the epoch is kept: another pass may begin before this one ends
        if self.shuffle:
            order = np.random.Generator(np.random.PCG64([self.seed, epoch])).permutation(self.count)
        for number in range(self.start, len(self)):
            yield [(epoch, int(index)) for index in order[number * self.batch : (number + 1) * self.batch]]


class Loader:
    """Passes over a split, each from any batch on."""

    def __init__(
        self,
        split: Split,
        preprocessing: Preprocessing,
        *,
        batch: int,
        shuffle: bool = False,
        how: Augmentation | None = None,
        seed: int = 0,
        workers: int = 0,
    ) -> None:
        self.split = split
        self.order = Order(len(split), batch=batch, shuffle=shuffle, seed=seed)
        self.loader: DataLoader[Batch | VitrailError] = DataLoader(
            Pictures(split, preprocessing, how=how or Augmentation(), seed=seed),
            batch_sampler=self.order,
            collate_fn=_as_is,
            num_workers=workers,
            persistent_workers=workers > 0,
            worker_init_fn=_leave_signals_to_the_main_process,
            generator=torch.Generator(),  # its own, so that iterating draws nothing from the global one
        )

    def __len__(self) -> int:
        return len(self.order)

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        self.order.epoch, self.order.start = epoch, start
        for batch in self.loader:
            if isinstance(batch, VitrailError):
                raise VitrailError(str(batch))  # not itself: a cycle through this frame would delay the workers' end
            yield batch


def _leave_signals_to_the_main_process(worker: int) -> None:
    """Ctrl-C and SIGTERM often go to the whole group: the main process saves and then ends its workers itself."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _as_is(batch: Any) -> Any:
    return batch


def choose_workers(split: Split) -> int:
    """None for pictures in memory; for those that are read or drawn all cores but one."""
    inner = split
    while isinstance(inner, Part):
        inner = inner.whole
    return 0 if isinstance(inner, ArraySplit) else max(1, (os.cpu_count() or 1) - 1)
