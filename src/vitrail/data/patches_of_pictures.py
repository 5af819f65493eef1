"""Pairs to learn restoring from: patches cut at random from pictures of any size, and whole pictures to measure on, each with what a
degradation leaves of it.

b batch, ch channels, h w given, h2 w2 true
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.utils.data import Dataset

from vitrail.data.degradation import Degradation, degrade
from vitrail.data.images import PictureError
from vitrail.data.loading import Key, Loader, Order
from vitrail.data.picture_store import PictureStore
from vitrail.data.randomness import uniforms
from vitrail.data.transforms import to_unit


class Pairs(NamedTuple):
    """What a restoration task learns from; `indices` are the patches' numbers."""

    given: Float[Tensor, "b ch h w"]
    truth: Float[Tensor, "b ch h2 w2"]
    indices: Int[Tensor, "b"]


class WholePair(NamedTuple):
    """One picture to measure on; `indices` is its number in the split."""

    given: Float[Tensor, "1 ch h w"]
    truth: Float[Tensor, "1 ch h2 w2"]
    indices: Int[Tensor, "1"]
    name: str


class FetchedPairs(NamedTuple):
    """What a worker hands over, as `data.loading.Fetched`."""

    batch: Pairs | WholePair | None
    bad: tuple[PictureError, ...] = ()


class Patches(Dataset[FetchedPairs]):
    """Sample i of an epoch is a patch of picture i modulo their number: where it is cut, how it is turned, and what is done to it are
    functions of (seed, epoch, i)."""

    def __init__(self, pictures: PictureStore, how: Degradation, *, patch: int, turn: bool, seed: int) -> None:
        """`patch` is the side of what the model is given; the true patch is `how.scale` times as large. `turn`: by quarters, and
        mirrored."""
        self.pictures, self.how, self.side, self.turn, self.seed = pictures, how, patch * how.scale, turn, seed
        self.split = pictures.split

    def __getitems__(self, keys: list[Key]) -> FetchedPairs:
        epoch, numbers = keys[0][0], np.array([number for _, number in keys], dtype=np.int64)
        draws, bad = uniforms(self.seed, epoch, numbers, count=3), list[PictureError]()
        cut, kept = list[np.ndarray](), list[int]()
        for row, number in enumerate(numbers.tolist()):
            try:
                picture = self.pictures.read(number % len(self.pictures))
            except PictureError as error:
                bad.append(error)
                continue
            patch = cut_patch(picture, self.side, draws[row, :2])
            cut.append(turn_patch(patch, int(8 * draws[row, 2])) if self.turn else patch)
            kept.append(row)
        if not cut:
            return FetchedPairs(None, tuple(bad))
        truth = to_unit(np.stack(cut))
        given = degrade(truth, self.how, seed=self.seed, epoch=epoch, indices=numbers[kept])
        return FetchedPairs(Pairs(given, truth, torch.from_numpy(numbers[kept])), tuple(bad))


class WholePictures(Dataset[FetchedPairs]):
    """Pictures one at a time, cut to multiples of the scale as the literature does; of larger ones than `most` a side the middle."""

    def __init__(self, pictures: PictureStore, how: Degradation, *, most: int | None, seed: int) -> None:
        self.pictures, self.how, self.most, self.seed, self.split = pictures, how, most, seed, pictures.split

    def __getitems__(self, keys: list[Key]) -> FetchedPairs:
        ((_, index),) = keys
        try:
            picture = self.pictures.read(index)
            name = self.pictures.split.name(index)
            if min(picture.shape[:2]) < self.how.scale:
                raise PictureError(name, f"smaller than the {self.how.scale} pixels a side that {self.how} needs")
        except PictureError as error:
            return FetchedPairs(None, (error,))
        truth = to_unit(cut_middle(picture, self.most, multiple=self.how.scale)[None])
        numbers = np.array([index], dtype=np.int64)
        given = degrade(truth, self.how, seed=self.seed, epoch=0, indices=numbers)
        return FetchedPairs(WholePair(given, truth, torch.from_numpy(numbers), name))


class PairLoader(Loader):
    """Passes over pairs, each from any batch on; what cannot be read is left out and told to `on_bad`."""

    def __init__(
        self,
        pairs: Patches | WholePictures,
        order: Order,
        *,
        workers: int = 0,
        on_bad: Callable[[PictureError], None] | None = None,
    ) -> None:
        self.connect(order, pairs, workers=workers, on_bad=on_bad)


def patch_loader(
    pictures: PictureStore,
    how: Degradation,
    *,
    batch: int,
    patch: int,
    patches: int = 1,
    turn: bool = True,
    seed: int = 0,
    workers: int = 0,
    on_bad: Callable[[PictureError], None] | None = None,
    rank: int = 0,
    world: int = 1,
) -> PairLoader:
    """An epoch has `patches` of each picture, in an order that depends on (seed, epoch) only."""
    samples = np.zeros(len(pictures) * patches, dtype=np.int64)
    order = Order(samples, batch=batch, shuffle=True, seed=seed, rank=rank, world=world)
    return PairLoader(Patches(pictures, how, patch=patch, turn=turn, seed=seed), order, workers=workers, on_bad=on_bad)


def whole_loader(
    pictures: PictureStore,
    how: Degradation,
    *,
    most: int | None = None,
    seed: int = 0,
    workers: int = 0,
    on_bad: Callable[[PictureError], None] | None = None,
    rank: int = 0,
    world: int = 1,
) -> PairLoader:
    """Every picture once, one after the other, always degraded alike."""
    order = Order(np.zeros(len(pictures), dtype=np.int64), batch=world, shuffle=False, seed=seed, rank=rank, world=world)
    return PairLoader(WholePictures(pictures, how, most=most, seed=seed), order, workers=workers, on_bad=on_bad)


def cut_patch(picture: UInt8[np.ndarray, "h w ch"], side: int, draws: Float[np.ndarray, "2"]) -> UInt8[np.ndarray, "s s ch"]:
    """A square anywhere in the picture; one that is too small is continued by its mirror image first."""
    short = [max(0, side - length) for length in picture.shape[:2]]
    if any(short):
        picture = np.pad(picture, ((0, short[0]), (0, short[1]), (0, 0)), mode="symmetric")
    top, left = (int(draw * (length - side + 1)) for draw, length in zip(draws, picture.shape[:2], strict=True))
    return picture[top : top + side, left : left + side]


def turn_patch(patch: UInt8[np.ndarray, "s s ch"], number: int) -> UInt8[np.ndarray, "s s ch"]:
    """One of the eight symmetries of a square: `number` % 4 quarter turns, mirrored from 4 on."""
    turned = np.rot90(patch, number % 4)
    return turned[:, ::-1] if number >= 4 else turned


def cut_middle(picture: UInt8[np.ndarray, "h w ch"], most: int | None, *, multiple: int) -> UInt8[np.ndarray, "h2 w2 ch"]:
    """At most `most` a side from the middle, then from the top left as many whole multiples as there are."""
    height, width = (length if most is None else min(length, most) for length in picture.shape[:2])
    top, left = (picture.shape[0] - height) // 2, (picture.shape[1] - width) // 2
    return picture[top : top + height // multiple * multiple, left : left + width // multiple * multiple]
