"""Batches of pictures that keep their aspect, of so many tokens in all: what a model reads as one packed sequence [Dehghani+ 2023].

n pictures, h w one picture, ch channels
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8

from vitrail.data.augmentation import Augmentation, augment
from vitrail.data.cache import Cache
from vitrail.data.dataset import ArraySplit, FileSplit, Split, origin
from vitrail.data.images import PictureError, find_orientation, open_picture
from vitrail.data.loading import COPY, Fetched, Key, Loader, Order, PackedBatch, Pictures
from vitrail.data.transforms import aspect_size, fit_picture, normalize, to_unit
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing
from vitrail.ragged import Ragged

SIDEWAYS = 5  # EXIF's orientations from here on swap height and width


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


class PackedOrder(Order):
    """Batches of at most `budget` tokens, where `lengths` are those of the pictures.

    In training pictures come in the order that (seed, epoch) has for them, as many in a batch as have room: a batch is as random as
    one of pictures of one size. An epoch has as many batches as all tokens would fill; the few pictures left over wait for another
    epoch. Without shuffling, where every picture must come and order means nothing, bins are filled as well as can be.
    """

    def __init__(self, labels: np.ndarray, lengths: Int[np.ndarray, "n"], *, budget: int, shuffle: bool, **order: Any) -> None:
        super().__init__(labels, shuffle=shuffle, **order)
        check_lengths(lengths.tolist(), budget)
        self.lengths, self.budget = lengths, budget
        self.bins = [] if shuffle else [np.array(numbers) for numbers in first_fit_decreasing(lengths.tolist(), budget)]

    def __len__(self) -> int:
        return max(1, int(self.lengths.sum()) // self.budget) if self.shuffle else len(self.bins)

    def deal(self, epoch: int) -> list[np.ndarray]:
        if not self.shuffle:
            return self.bins
        order = self.permutation(epoch)
        found = list[np.ndarray]()
        # A second time only where short pictures are drawn more often, for the sake of balance.
        while len(order) and len(found) < len(self):
            bins = next_fit(self.lengths[order % COPY].tolist(), self.budget)
            found += [order[numbers] for numbers in bins]
        return found[: len(self)]


class PackedPictures(Pictures):
    """A split whose pictures are brought to `sizes` of their own."""

    def __init__(
        self,
        split: Split,
        preprocessing: Preprocessing,
        sizes: Int[np.ndarray, "n 2"],
        *,
        how: Augmentation,
        seed: int,
        cache: Cache | None = None,
    ) -> None:
        super().__init__(split, preprocessing, how=how, seed=seed, cache=cache)
        self.sizes = sizes

    def __getitems__(self, keys: list[Key]) -> Fetched:
        epoch, numbers = keys[0][0], np.array([number for _, number in keys], dtype=np.int64)
        pictures, bad = self.read_all(numbers % COPY)
        if not pictures:
            return Fetched(None, tuple(bad))
        numbers = numbers[[index in pictures for index in (numbers % COPY).tolist()]]
        images = []
        for number in numbers:  # each by itself, so that it comes out the same in any company
            unit = to_unit(np.stack([pictures[int(number % COPY)]]))
            changed = augment(unit, self.how, seed=self.seed, epoch=epoch, indices=np.array([number]))
            images.append(normalize(changed, self.preprocessing)[0])
        indices = numbers % COPY
        labels = torch.from_numpy(self.split.labels[indices])
        return Fetched(PackedBatch(Ragged.join(images), labels, torch.from_numpy(indices)), tuple(bad))

    def read(self, index: int) -> UInt8[np.ndarray, "h w ch"]:
        """The picture at its size, from the cache if it is there; places in the cache are of the largest size."""
        height, width = (int(side) for side in self.sizes[index])
        channels, kept = self.preprocessing.channels, None if self.cache is None else self.cache.get(index)
        if kept is not None:
            return kept.reshape(-1, channels)[: height * width].reshape(height, width, channels)
        picture = self.split.read(index, target=self.preprocessing.size)
        turned = (picture.height > picture.width and height < width) or (picture.height < picture.width and height > width)
        size = (width, height) if turned else (height, width)  # a PNG may say behind its pixels which way is up
        found = fit_picture(picture, replace(self.preprocessing, size=size, fit="squash"))
        if self.cache is not None and not turned:
            room = np.zeros((self.preprocessing.size[0] * self.preprocessing.size[1], channels), np.uint8)
            room[: height * width] = found.reshape(-1, channels)
            self.cache.put(index, room.reshape(*self.preprocessing.size, channels))
        return found


class PackedLoader(Loader):
    """A `Loader` of pictures that keep their aspect. A batch has at most the tokens of `batch` pictures of the model's size.

    `multiple` is the side of a patch, `prefix` how many tokens a picture has beside its patches.
    """

    def __init__(
        self,
        split: Split,
        preprocessing: Preprocessing,
        *,
        batch: int,
        multiple: int,
        prefix: int = 0,
        shuffle: bool = False,
        balanced: bool = False,
        how: Augmentation | None = None,
        seed: int = 0,
        workers: int = 0,
        cache: Cache | None = None,
        on_bad: Callable[[PictureError], None] | None = None,
        repeats: int = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        sizes = packed_sizes(split, preprocessing.size, multiple=multiple)
        lengths = sizes.prod(axis=1) // multiple**2 + prefix
        full = preprocessing.size[0] * preprocessing.size[1] // multiple**2 + prefix
        order = PackedOrder(
            split.labels, lengths, budget=batch * full, shuffle=shuffle, batch=batch, seed=seed, balanced=balanced,
            repeats=repeats, rank=rank, world=world,
        )  # fmt: skip
        pictures = PackedPictures(split, preprocessing, sizes, how=how or Augmentation(), seed=seed, cache=cache)
        self.connect(order, pictures, workers=workers, on_bad=on_bad)


def packed_sizes(split: Split, largest: tuple[int, int], *, multiple: int) -> Int[np.ndarray, "n 2"]:
    """What each picture is resized to (see `aspect_size`): height, width."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    rows = np.empty((len(split), 2), dtype=np.int64)
    for index in range(len(split)):
        size = stored_size(split, index) or largest
        if size not in found:
            found[size] = aspect_size(size, largest, multiple=multiple)
        rows[index] = found[size]
    return rows


def stored_size(split: Split, index: int) -> tuple[int, int] | None:
    """Height and width of a picture, upright, from the beginning of its file; None where it cannot be read, as will be told when it is."""
    split, index = origin(split, index)
    if isinstance(split, ArraySplit):
        return int(split.pictures.shape[1]), int(split.pictures.shape[2])
    try:
        if split.encoded:
            try:
                with open_picture(split.paths[index] if isinstance(split, FileSplit) else split.content(index)) as picture:
                    sideways = find_orientation(picture) >= SIDEWAYS
                    return picture.size if sideways else (picture.height, picture.width)
            except PictureError:
                pass  # a format of the split's own (or a broken file): the split has the last word
        whole = split.read(index)
        return whole.height, whole.width
    except VitrailError:
        return None
