"""Patches of images to learn from, and whole images to score, each with its damage.

b batch, ch channels, h w degraded, h2 w2 true, s side of a patch
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet, Part, Split
from vitrail.data.degradation import Degradation, degrade, parse_degradation
from vitrail.data.examples import spread
from vitrail.data.image_source import stack_unit
from vitrail.data.image_store import ImageStore
from vitrail.data.images import ImageError
from vitrail.data.loader import Loader, OnBad, Read, Samples, read_each
from vitrail.data.order import PlainOrder
from vitrail.data.randomness import uniforms
from vitrail.learn.training.world import World
from vitrail.tasks.image_task import note_bad
from vitrail.tasks.restore.options import Options, check_degradation

VALIDATED, SIDE = 64, 256  # images and their pixels a side, at most: validation comes every epoch


class Pairs(NamedTuple):
    """What a restoration task learns from; `indices` are the patches' numbers."""

    given: Float[Tensor, "b ch h w"]
    truth: Float[Tensor, "b ch h2 w2"]
    indices: Int[Tensor, "b"]


class WholePair(NamedTuple):
    """One image to score; `indices` is its number in the split."""

    given: Float[Tensor, "1 ch h w"]
    truth: Float[Tensor, "1 ch h2 w2"]
    indices: Int[Tensor, "1"]
    name: str


class PatchSource(Samples[np.ndarray, Pairs]):
    """Sample i of an epoch is a patch of image i modulo their number: where it is cut, how it is turned, and how it is degraded are
    functions of (seed, epoch, i)."""

    def __init__(self, images: ImageStore, how: Degradation, *, patch: int, turn: bool = True, seed: int = 0) -> None:
        """`patch` is the side of the model's input; the true patch is `how.scale` times as large. `turn`: by quarters, and mirrored."""
        self.images, self.how, self.side, self.turn, self.seed = images, how, patch * how.scale, turn, seed

    def sample(self, epoch: int, index: int) -> UInt8[np.ndarray, "s s ch"]:
        return self.cut(index, uniforms(self.seed, epoch, np.array([index]), count=3)[0])

    def samples(self, epoch: int, indices: Sequence[int]) -> Read[np.ndarray]:
        """The numbers of all are drawn at once, which takes as long as one patch otherwise."""
        draws = dict(zip(indices, uniforms(self.seed, epoch, np.array(indices), count=3), strict=True))
        return read_each(lambda index: self.cut(index, draws[index]), indices)

    def cut(self, index: int, draws: Float[np.ndarray, "3"]) -> UInt8[np.ndarray, "s s ch"]:
        patch = cut_patch(self.images.read(index % len(self.images)), self.side, draws[:2])
        return turn_patch(patch, int(8 * draws[2])) if self.turn else patch

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[np.ndarray]) -> Pairs:
        numbers, truth = np.array(indices, dtype=np.int64), stack_unit(samples)
        given = degrade(truth, self.how, seed=self.seed, epoch=epoch, indices=numbers)
        return Pairs(given, truth, torch.from_numpy(numbers))


class WholeSource(Samples[np.ndarray, WholePair]):
    """Images one at a time, cut to multiples of the scale as the literature does; of larger ones than `most` a side the middle."""

    def __init__(self, images: ImageStore, how: Degradation, *, most: int | None = None, seed: int = 0) -> None:
        self.images, self.how, self.most, self.seed = images, how, most, seed

    def sample(self, epoch: int, index: int) -> UInt8[np.ndarray, "h2 w2 ch"]:
        image = self.images.read(index)
        if min(image.shape[:2]) < self.how.scale:
            name = self.images.split.name(index)
            raise ImageError(name, f"smaller than the {self.how.scale} pixels a side that {self.how} needs")
        return cut_middle(image, self.most, multiple=self.how.scale)

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[np.ndarray]) -> WholePair:
        """Always degraded alike."""
        numbers, truth = np.array(indices, dtype=np.int64), stack_unit(samples)
        given = degrade(truth, self.how, seed=self.seed, epoch=0, indices=numbers)
        return WholePair(given, truth, torch.from_numpy(numbers), self.images.split.name(indices[0]))


def patch_loader(
    images: ImageStore, how: Degradation, *, batch: int, patch: int, patches: int = 1, turn: bool = True, seed: int = 0,
    workers: int = 0, on_bad: OnBad | None = None, rank: int = 0, world: int = 1,
) -> Loader[Pairs]:  # fmt: skip
    """An epoch has `patches` of each image."""
    source = PatchSource(images, how, patch=patch, turn=turn, seed=seed)
    order = PlainOrder(len(images) * patches, batch=batch, shuffle=True, seed=seed, rank=rank, world=world)
    return Loader(source, order, workers=workers, on_bad=on_bad)


def whole_loader(
    images: ImageStore, how: Degradation, *, most: int | None = None, seed: int = 0, workers: int = 0,
    on_bad: OnBad | None = None, rank: int = 0, world: int = 1,
) -> Loader[WholePair]:  # fmt: skip
    """Every image once, one after the other."""
    order = PlainOrder(len(images), batch=world, rank=rank, world=world)
    return Loader(WholeSource(images, how, most=most, seed=seed), order, workers=workers, on_bad=on_bad)


def cut_patch(image: UInt8[np.ndarray, "h w ch"], side: int, draws: Float[np.ndarray, "2"]) -> UInt8[np.ndarray, "s s ch"]:
    """A square anywhere in the image; one that is too small is continued by its mirror image first."""
    short = [max(0, side - length) for length in image.shape[:2]]
    if any(short):
        image = np.pad(image, ((0, short[0]), (0, short[1]), (0, 0)), mode="symmetric")
    top, left = (int(draw * (length - side + 1)) for draw, length in zip(draws, image.shape[:2], strict=True))
    return image[top : top + side, left : left + side]


def turn_patch(patch: UInt8[np.ndarray, "s s ch"], number: int) -> UInt8[np.ndarray, "s s ch"]:
    """One of the eight symmetries of a square: `number` % 4 quarter turns, mirrored from 4 on."""
    turned = np.rot90(patch, number % 4)
    return turned[:, ::-1] if number >= 4 else turned


def cut_middle(image: UInt8[np.ndarray, "h w ch"], most: int | None, *, multiple: int) -> UInt8[np.ndarray, "h2 w2 ch"]:
    """At most `most` a side from the middle, then from the top left as many whole multiples as there are."""
    height, width = (length if most is None else min(length, most) for length in image.shape[:2])
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    return image[top : top + height // multiple * multiple, left : left + width // multiple * multiple]


def damage_of(options: Options) -> Degradation:
    """What to undo."""
    check_degradation(options.degrade)
    return parse_degradation(str(options.degrade))


def restoring_loaders(
    options: Options, data: DataSet, channels: int, bad: BadFiles, world: World
) -> tuple[Loader[Pairs], Loader[WholePair]]:
    """Patches to learn from, and the middles of some images to validate on; decoded images are stored for next time."""
    assert options.batch_size != "auto"
    assert options.patch_size != "auto"
    assert options.patches != "auto"
    assert options.cache_gb != "auto"
    assert options.workers != "auto"
    how, budget = damage_of(options), int(options.cache_gb * 2**30) if options.cache == "memory" else 0
    some = Part(data["val"], np.array(spread(len(data["val"]), VALIDATED), dtype=np.int64))
    validation = ImageStore(some, channels=channels, budget=budget // 8)
    common: dict[str, Any] = {
        "seed": options.seed, "workers": options.workers, "rank": world.rank, "world": world.size,
    }  # fmt: skip
    training = patch_loader(
        ImageStore(data["train"], channels=channels, budget=budget - budget // 8),
        how,
        batch=options.batch_size,
        patch=options.patch_size,
        patches=options.patches,
        turn=bool(options.flip),
        on_bad=partial(note_bad, bad, "train"),
        **common,
    )
    return training, whole_loader(validation, how, most=SIDE, on_bad=partial(note_bad, bad, "val"), **common)


def scored_loader(
    images: Split, how: Degradation, *, channels: int, seed: int, workers: int, bad: BadFiles, split: str, world: World
) -> Loader[WholePair]:
    """Every image of a split, whole, with the same damage each time."""
    return whole_loader(
        ImageStore(images, channels=channels, budget=0),
        how,
        seed=seed,
        workers=workers,
        on_bad=partial(note_bad, bad, split),
        rank=world.rank,
        world=world.size,
    )
