"""The one loader: an `Order` says which samples form a batch, a `Source` reads samples and makes a batch of them.

The order is a function of (seed, epoch), a sample of (seed, epoch, index). So a pass can start at any batch, and neither the number of
workers nor a restart changes what comes.
"""

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from vitrail.data.ahead import ahead
from vitrail.data.dataset import ArraySplit, Split, whole_of
from vitrail.data.images import ImageError
from vitrail.data.order import Order
from vitrail.errors import VitrailError

S = TypeVar("S")  # a sample
B = TypeVar("B")  # a batch
B_co = TypeVar("B_co", covariant=True)
Key = tuple[int, list[int]]  # epoch, and the indices of a batch
OnBad = Callable[[ImageError], None]


@dataclass(frozen=True, slots=True)
class Read(Generic[S]):
    """Samples that could be read, with their indices, and what is wrong with the others."""

    indices: Sequence[int]
    samples: Sequence[S] | np.ndarray  # an array: all of them, stacked
    bad: tuple[ImageError, ...] = ()


@runtime_checkable
class Source(Protocol[S, B_co]):
    """What a loader reads from. An index may be that of a copy: see `data.order.COPY`."""

    @property
    def cheap(self) -> bool:
        """Whether a batch is made faster than a thread is woken: then nothing is read ahead."""

    def sample(self, epoch: int, index: int) -> S:
        """Random numbers are a function of (seed, epoch, index). Raises ImageError for what cannot be read."""

    def samples(self, epoch: int, indices: Sequence[int]) -> Read[S]:
        """A whole batch at once; `Samples` has the default, one after the other."""

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[S]) -> B_co:
        """Samples as a batch. A batch has `indices`, and `weight` where its loss is no mean over samples."""


class Samples(ABC, Generic[S, B]):
    """A base for sources: reads the samples of a batch one after the other."""

    cheap: ClassVar[bool] = False

    @abstractmethod
    def sample(self, epoch: int, index: int) -> S: ...

    @abstractmethod
    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[S]) -> B: ...

    def samples(self, epoch: int, indices: Sequence[int]) -> Read[S]:
        return read_each(partial(self.sample, epoch), indices)


def read_each(sample: Callable[[int], S], indices: Sequence[int]) -> Read[S]:
    """Samples one after the other, without those that cannot be read."""
    read, samples, bad = list[int](), list[S](), list[ImageError]()
    for index in indices:
        try:
            samples.append(sample(index))
            read.append(index)
        except ImageError as error:
            bad.append(error)
    return Read(read, samples, tuple(bad))


class Fetched(NamedTuple):
    """What a worker returns: a batch, without the samples that could not be read; None if that is all of them.

    Errors are returned, not raised: a worker would wrap them into a traceback of many lines.
    """

    batch: Any
    bad: tuple[ImageError, ...] = ()


class Fetcher(Dataset[Fetched]):
    """Makes the batch of a key, in whichever process."""

    def __init__(self, source: Source[Any, Any]) -> None:
        self.source = source

    def __getitem__(self, key: Key) -> Fetched:
        epoch, indices = key
        read = self.source.samples(epoch, indices)
        samples: Any = read.samples  # of the kind that the source collates
        return Fetched(self.source.collate(epoch, read.indices, samples) if len(samples) else None, read.bad)


class Keys(Sampler[Key]):
    """The keys of a pass, which the loader sets before each."""

    keys: Iterable[Key] = ()

    def __iter__(self) -> Iterator[Key]:
        return iter(self.keys)


class Loader(Generic[B]):
    """Passes over a source, each from any batch on. A sample that cannot be read is left out of its batch and passed to `on_bad`."""

    def __init__(self, source: Source[Any, B], order: Order, *, workers: int = 0, on_bad: OnBad | None = None) -> None:
        """Without workers a thread makes the next batch while the one before is used, unless that is cheap. Without `on_bad` a bad sample is an error."""
        self.source: Any = source
        self.order, self.on_bad, self.fetcher, self.keys = order, on_bad, Fetcher(source), Keys()
        self.workers: DataLoader[Fetched] | None = None
        if workers:
            self.workers = DataLoader(
                self.fetcher,
                batch_size=None,  # a key is a batch
                sampler=self.keys,
                collate_fn=_as_is,
                num_workers=workers,
                persistent_workers=True,
                worker_init_fn=_prepare_worker,
                generator=torch.Generator(),  # its own, so that iterating draws nothing from the global one
            )

    def __len__(self) -> int:
        """Batches per epoch, whichever it is."""
        return len(self.order)

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[B]:
        self.keys.keys = keys = ((epoch, indices) for indices in self.order.batches(epoch, start))
        plain = map if self.source.cheap else ahead
        for batch, bad in plain(self.fetcher.__getitem__, keys) if self.workers is None else self.workers:
            for error in bad:
                if self.on_bad is None:
                    # A new one: a cycle through this frame would delay the workers' end.
                    raise type(error)(error.name, error.reason)
                self.on_bad(error)
            if batch is not None:
                yield batch
            elif self.order.shuffle:  # a step cannot be left out: the schedule and exact resumption count them
                raise VitrailError(f"none of the {len(bad)} images of a batch can be read; {bad[0]}")


def _prepare_worker(worker: int) -> None:
    """Ctrl-C and SIGTERM often go to the whole group: the main process saves and then ends its workers itself."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _as_is(batch: Any) -> Any:
    return batch


def choose_workers(split: Split) -> int:
    """None for images in memory; for those that are read or drawn all cores but one."""
    return 0 if isinstance(whole_of(split), ArraySplit) else max(1, (os.cpu_count() or 1) - 1)
