"""Which samples form a batch, as a function of (seed, epoch): plain, packed to a number of tokens, or among alike ones.

n samples, k classes
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from jaxtyping import Bool, Int

from vitrail.errors import VitrailError

COPY = 2**40  # more than a split has samples: index + COPY · (which copy of it) names what is random about a copy
BATCHES = (
    8  # of a bucket: more mix better and pad more. On Multi30k with 4,096 tokens 89 % are no padding; with 1, 93 %; 16, 84 %
)
Dealt = list[Int[np.ndarray, "_"]]


class Order(ABC):
    """Of every batch process `rank` of `world` takes its share, so that all of them together take the same steps as one would."""

    def __init__(self, *, shuffle: bool, seed: int, rank: int, world: int) -> None:
        """`shuffle`: to train with. An epoch's number of batches is always the same, and none of them may be missing."""
        if not 0 <= rank < world:
            raise VitrailError(f"rank must be from 0 to world - 1, got rank {rank} of {world}")
        self.shuffle, self.seed, self.rank, self.world = shuffle, seed, rank, world

    @abstractmethod
    def __len__(self) -> int:
        """Batches per epoch."""

    @abstractmethod
    def deal(self, epoch: int) -> Dealt:
        """The indices of each whole batch of an epoch."""

    def batches(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        """This process's share of each batch from `start` on, where it has one."""
        for whole in self.deal(epoch)[start:]:
            if share := whole[self.rank :: self.world].tolist():
                yield share


class Passes(TypedDict, total=False):
    """How a `PlainOrder` passes over its samples, beside batches, seed and balance."""

    shuffle: bool
    repeats: int
    rank: int
    world: int


class PlainOrder(Order):
    """Batches of equal size: of shuffled samples, or of all as they stand.

    With `balance`, the labels of all samples, every class comes equally often. With `repeats` a batch holds each of its images that many
    times, differently augmented, and an epoch as many batches as without, of another part of the images each time
    [Hoffer+ 2020, batch augmentation].
    """

    def __init__(
        self,
        samples: int,
        *,
        batch: int,
        shuffle: bool = False,
        seed: int = 0,
        balance: np.ndarray | None = None,
        repeats: int = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        super().__init__(shuffle=shuffle, seed=seed, rank=rank, world=world)
        if shuffle and samples < world:
            raise VitrailError(f"{samples} images cannot be shared among {world} processes")
        if shuffle:
            check_share(batch, world)
        if repeats < 1:
            raise VitrailError(f"an image cannot come {repeats} times in a batch: repeats must be at least 1")
        if repeats > 1 and not shuffle:
            raise VitrailError(f"images are repeated in training only, where they are shuffled; got repeats {repeats}")
        if batch % repeats:
            raise VitrailError(f"a batch of {batch} cannot hold each of its images {repeats} times")
        self.samples, self.batch, self.balance, self.repeats = samples, batch, balance, repeats

    def __len__(self) -> int:
        """In training the last batch is dropped if it is not full, unless it is the only one."""
        return max(1, self.samples // self.batch) if self.shuffle else -(-self.samples // self.batch)

    def permutation(self, epoch: int) -> Int[np.ndarray, "n"]:
        """The whole epoch's samples in their order."""
        if not self.shuffle:
            return np.arange(self.samples)
        generator = np.random.Generator(np.random.PCG64([self.seed, epoch]))
        order = generator.permutation(self.samples) if self.balance is None else balanced_order(self.balance, generator)
        if self.repeats == 1:
            return order
        # The copies of an image stand side by side: in one batch, and spread over the processes that share it.
        copies = order[: -(-len(order) // self.repeats), None] + COPY * np.arange(self.repeats)
        return copies.ravel()[: len(order)]

    def deal(self, epoch: int) -> Dealt:
        order = self.permutation(epoch)
        return [order[step * self.batch : (step + 1) * self.batch] for step in range(len(self))]


class PackedOrder(PlainOrder):
    """Batches of at most `budget` tokens, where `lengths` are those of the samples  [Dehghani+ 2023].

    In training samples come in the order that (seed, epoch) has for them, as many in a batch as have room: a batch is as random as
    one of images of one size. An epoch has as many batches as all tokens would fill; the few samples left over wait for another
    epoch. Without shuffling, where every sample must come and order means nothing, bins are filled as well as can be.
    """

    def __init__(self, lengths: Int[np.ndarray, "n"], *, budget: int, **plain: Any) -> None:
        super().__init__(len(lengths), **plain)
        check_lengths(lengths.tolist(), budget)
        self.lengths, self.budget = lengths, budget
        self.bins = [] if self.shuffle else [np.array(some) for some in first_fit_decreasing(lengths.tolist(), budget)]

    def __len__(self) -> int:
        return max(1, int(self.lengths.sum()) // self.budget) if self.shuffle else len(self.bins)

    def deal(self, epoch: int) -> Dealt:
        if not self.shuffle:
            return self.bins
        order, dealt = self.permutation(epoch), Dealt()
        # A second time only where short images are drawn more often, for the sake of balance.
        while len(order) and len(dealt) < len(self):
            dealt += [order[some] for some in next_fit(self.lengths[order % COPY].tolist(), self.budget)]
        return dealt[: len(self)]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Samples that may be in one batch, and how many batches they make."""

    members: Int[np.ndarray, "n"]
    count: int
    size: int | None = None  # of each batch; None: their sizes differ by one at most

    def deal(self, generator: np.random.Generator | None) -> Dealt:
        """The batches: of shuffled samples, or without a generator as they stand. What no batch has room for is left out."""
        order = self.members if generator is None else generator.permutation(self.members)
        if self.size is None:
            return np.array_split(order, self.count)
        return [order[start : start + self.size] for start in range(0, self.count * self.size, self.size)]


class BucketOrder(Order):
    """Batches of samples of one bucket each, by length or by shape: each epoch a bucket's samples are shuffled among its batches, then all
    batches. An epoch goes `passes` times over all; the samples of pass p are copies of number p (see `COPY`)."""

    def __init__(
        self, buckets: Sequence[Bucket], *, shuffle: bool = False, seed: int = 0, passes: int = 1, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(shuffle=shuffle, seed=seed, rank=rank, world=world)
        self.buckets, self.passes = buckets, passes

    def __len__(self) -> int:
        return self.passes * sum(bucket.count for bucket in self.buckets)

    def deal(self, epoch: int) -> Dealt:
        return [whole + COPY * number for number in range(self.passes) for whole in self.once(epoch * self.passes + number)]

    def once(self, number: int) -> Dealt:
        """The batches of a pass, counted from the first epoch's on."""
        generator = np.random.Generator(np.random.PCG64([self.seed, number])) if self.shuffle else None
        dealt = [whole for bucket in self.buckets for whole in bucket.deal(generator)]
        return dealt if generator is None else [dealt[place] for place in generator.permutation(len(dealt))]


def bucket_by_length(
    lengths: Int[np.ndarray, "n"], members: Int[np.ndarray, "k"], *, tokens: int, shuffle: bool, world: int
) -> list[Bucket]:
    """Buckets of the samples `members`, whose lengths are among `lengths`: batches of at most `tokens` tokens with their padding.

    The number of batches must not depend on the epoch, for the schedule and exact resumption count steps. So the samples are sorted by
    length once and cut into buckets that stay.
    """
    made = make_buckets(lengths[members], tokens, batches=BATCHES if shuffle else 1)
    buckets = [Bucket(members[bucket.members], bucket.count) for bucket in made]
    return check_buckets(buckets, world) if shuffle else buckets


def make_buckets(lengths: Int[np.ndarray, "n"], tokens: int, *, batches: int = BATCHES) -> list[Bucket]:
    """Buckets of about `batches` batches each, from the shortest samples to the longest.

    A batch of any of the bucket's samples, all padded to its longest, has at most `tokens` tokens.
    """
    longest = int(lengths.max(initial=0))
    if longest > tokens:
        raise VitrailError(f"a batch of {tokens} tokens cannot hold a sentence of {longest}")
    order, buckets, start = np.argsort(lengths, kind="stable"), list[Bucket](), 0
    ordered = lengths[order]
    while start < len(order):
        # Sample number k behind `start` still fits while k < batches · (tokens // its length).
        fits = np.arange(len(order) - start) < batches * (tokens // ordered[start:])
        stop = start + (int(fits.argmin()) if not fits.all() else len(fits))
        if len(order) - stop < tokens // longest:  # not enough for one more batch: they stay with the others
            stop = len(order)
        size = tokens // int(ordered[stop - 1])
        buckets.append(Bucket(order[start:stop], -(-(stop - start) // size)))
        start = stop
    return buckets


def fixed_bucket(members: Int[np.ndarray, "n"], batch: int, *, full: bool) -> Bucket:
    """All members together, `batch` in each batch; with `full` the last batch is left out if it has fewer, unless it is the only one."""
    if batch < 1:
        raise VitrailError(f"a batch needs at least one sentence, got {batch}")
    return Bucket(members, max(1, len(members) // batch) if full else -(-len(members) // batch), batch)


def check_buckets(buckets: list[Bucket], world: int) -> list[Bucket]:
    """Every process has a share of every batch."""
    smallest = min(len(batch) for bucket in buckets for batch in bucket.deal(None))
    if smallest < world:
        raise VitrailError(
            f"a batch of {smallest} sentences cannot be shared among {world} processes: let it have more of them"
        )
    return buckets


def check_share(batch: int, world: int) -> None:
    if batch % world:
        raise VitrailError(f"a batch of {batch} cannot be shared equally among {world} processes")


def first_fit_decreasing(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Numbers of the items in bins of at most `budget`: the longest first, each into the first bin that has room  [Johnson 1973].

    At most 11/9 of the fewest bins there could be, and 6/9 of one. Items of equal length stay in their order.
    """
    check_lengths(lengths, budget)
    bins, rooms = list[list[int]](), list[int]()
    place, last = 0, 0
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        length = lengths[number]
        if length != last:  # bins before `place` have no room for this length, and never will have
            place, last = 0, length
        while place < len(bins) and rooms[place] < length:
            place += 1
        if place == len(bins):
            bins.append([])
            rooms.append(budget)
        bins[place].append(number)
        rooms[place] -= length
    return bins


def next_fit(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """The same in the order given: a bin is closed when the next item has no room in it. So items that stand together stay together."""
    check_lengths(lengths, budget)
    bins, room = list[list[int]](), 0
    for number, length in enumerate(lengths):
        if length > room:
            bins.append([])
            room = budget
        bins[-1].append(number)
        room -= length
    return bins


def check_lengths(lengths: Sequence[int], budget: int) -> None:
    if len(lengths) and not 1 <= min(lengths) <= max(lengths) <= budget:
        raise VitrailError(f"items of {min(lengths)} to {max(lengths)} tokens do not fit into bins of {budget}")


def balanced_order(
    labels: Int[np.ndarray, "n"] | Bool[np.ndarray, "n k"], generator: np.random.Generator
) -> Int[np.ndarray, "n"]:
    """As many samples as there are, the classes equally often (to within one), in random order.

    Within a class the samples come in shuffled rounds: none twice before all once. Of samples with several labels each round
    takes those that have the class in turn; one without labels counts as a class of its own.
    """
    groups = members_of(labels)
    share, more = divmod(len(labels), len(groups))
    lucky = set(generator.permutation(len(groups))[:more].tolist())  # who gets one more, where it does not divide
    drawn = [_rounds(members, share + (number in lucky), generator) for number, members in enumerate(groups)]
    return generator.permutation(np.concatenate(drawn))


def members_of(labels: np.ndarray) -> list[np.ndarray]:
    """The samples of each class that has any."""
    if labels.ndim == 1:
        groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    else:
        groups = [np.flatnonzero(column) for column in labels.T] + [np.flatnonzero(~labels.any(axis=1))]
    return [members for members in groups if len(members)]


def _rounds(members: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    rounds = [generator.permutation(members) for _ in range(-(-count // len(members)))]
    return np.concatenate([members[:0], *rounds])[:count]
