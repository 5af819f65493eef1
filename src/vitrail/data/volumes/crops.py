"""Crops of volumes to learn from, a function of (seed, epoch, crop) only, and whole volumes to score.

b batch, x y z sides of a crop or volume, x2 y2 z2 those of its classes, n voxels, a numbers that are drawn
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from vitrail.data.ahead import ahead
from vitrail.data.randomness import uniforms
from vitrail.data.volumes.cases import Loaded
from vitrail.data.volumes.turning import turn_crop
from vitrail.errors import VitrailError

T = TypeVar("T")
Sides = tuple[int, int, int]
DRAWS = 17  # numbers for each crop
KNOWN = 4096  # voxels of each class of a case to put crops around
ROOM = 2**31  # bytes of volumes that are kept for the next epoch, at most


class VolumeBatch(NamedTuple):
    """Crops, or one whole volume; `indices` are the numbers of crops, or of the case. The classes of a whole volume may have other voxels
    than the image, which the model's spacing decides."""

    images: Float[Tensor, "b 1 x y z"]
    classes: Int[Tensor, "b x2 y2 z2"]
    indices: Int[Tensor, "b"]
    spacing: Float[Tensor, "b 3"]  # mm, of the classes


@dataclass(frozen=True, kw_only=True, slots=True)
class Varying:
    """How crops to learn from differ from what is stored."""

    flip: bool = False  # each axis mirrored or not, and quarter turns where two sides are equal
    rotate: float = 0.0  # degrees around each axis, at most
    zoom: float = 0.0  # factor more or less, at most
    brightness: float = 0.1  # gain and offset, at most


class VolumeBatches:
    """Passes over cases. In training (`crop` given) an epoch has `count` crops, of which a share of `foreground` is drawn around a voxel of a
    class other than the background, every class equally often; in validation it has the whole volumes, one at a time."""

    def __init__(
        self,
        load: Callable[[int], Loaded],
        cases: int,
        *,
        crop: Sides | None = None,
        count: int = 0,
        batch: int = 1,
        foreground: float = 0.5,
        varying: Varying | None = None,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        on_bad: Callable[[int, VitrailError], None] | None = None,
    ) -> None:
        """`on_bad` is told the case that cannot be loaded any more, and why: another one takes its turn, and whole ones are left out."""
        if not cases:
            raise VitrailError("not one volume to read")
        if crop is not None and batch % world:
            raise VitrailError(f"a batch of {batch} cannot be shared equally among {world} processes")
        self.cases, self.crop, self.count, self.batch, self.foreground = cases, crop, count, batch, foreground
        self.varying, self.seed, self.rank, self.world = varying or Varying(), seed, rank, world
        self.load, self.on_bad = load, on_bad
        first = self.next_case(0)[1]
        self.spacing = first.spacing
        room = max(1, ROOM // (first.image.nbytes + first.classes.nbytes))
        self.load = lru_cache(room)(load) if crop is not None else load
        self.places = lru_cache(None)(lambda number: find_places(self.load(number).classes, seed=seed))

    def next_case(self, begin: int) -> tuple[int, Loaded]:
        """The first case from `begin` on, round and round, that can be loaded."""
        for number in range(begin, begin + self.cases):
            found = self.attempt(self.load, number % self.cases)
            if found is not None:
                return number % self.cases, found
        raise VitrailError(f"not one of {self.cases} volumes can be read any more")

    def attempt(self, load: Callable[[int], T], number: int) -> T | None:
        try:
            return load(number)
        except VitrailError as error:
            if self.on_bad is None:
                raise
            self.on_bad(number, error)
            return None

    def __len__(self) -> int:
        return self.cases if self.crop is None else max(1, self.count // self.batch)

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[VolumeBatch]:
        if self.crop is None:
            numbers = range(start + self.rank, self.cases, self.world)
            return (one for one in ahead(lambda number: self.attempt(self.whole, number), numbers) if one is not None)
        steps = (
            range(number * self.batch + self.rank, (number + 1) * self.batch, self.world) for number in range(start, len(self))
        )
        return ahead(lambda some: self.some_crops(some, epoch=epoch), steps)

    def whole(self, number: int) -> VolumeBatch:
        one = self.load(number)
        images, classes = torch.from_numpy(one.image)[None, None], torch.from_numpy(one.classes.astype(np.int64))[None]
        return VolumeBatch(images, classes, torch.tensor([number]), torch.tensor([one.spacing]))

    def some_crops(self, numbers: Sequence[int], *, epoch: int) -> VolumeBatch:
        found = [self.draw(number, epoch=epoch) for number in numbers]
        images = torch.from_numpy(np.stack([image for image, _ in found]))[:, None]
        classes = torch.from_numpy(np.stack([classes for _, classes in found]).astype(np.int64))
        return VolumeBatch(images, classes, torch.tensor(list(numbers)), torch.tensor([self.spacing] * len(found)))

    def draw(self, number: int, *, epoch: int) -> tuple[Float[np.ndarray, "x y z"], Int[np.ndarray, "x y z"]]:
        """The crop of this number. Cases take turns, beginning with another one each epoch."""
        assert self.crop is not None
        draws = uniforms(self.seed, epoch, np.array([number]), count=DRAWS)[0]
        case, one = self.next_case(number + epoch)
        places = self.places(case)
        room = [size - side for size, side in zip(one.image.shape, self.crop, strict=True)]
        if places and draws[0] < self.foreground:
            some = places[int(draws[1] * len(places))]
            voxel = some[int(draws[2] * len(some))]
            # Anywhere within the crop, so that its middle is not always of a class.
            start = [int(at) - int(draw * side) for at, draw, side in zip(voxel, draws[3:6], self.crop, strict=True)]
            start = [min(max(at, min(0, free)), max(0, free)) for at, free in zip(start, room, strict=True)]
        else:
            start = [int(draw * (max(0, free) + 1)) for draw, free in zip(draws[3:6], room, strict=True)]
        image, classes = turn_crop(
            one.image, one.classes, start, self.crop, draws[6:10], rotate=self.varying.rotate, zoom=self.varying.zoom
        )
        if self.varying.flip:
            image, classes = (mirror(values, draws[10:15]) for values in (image, classes))
        gain, offset = 1 + self.varying.brightness * (2 * draws[15] - 1), self.varying.brightness * (2 * draws[16] - 1)
        return np.ascontiguousarray(np.float32(gain) * image + np.float32(offset)), np.ascontiguousarray(classes)


def find_places(classes: Int[np.ndarray, "x y z"], *, seed: int) -> list[Int[np.ndarray, "n 3"]]:
    """Some voxels of each class of a volume, without the background."""
    found = []
    for number in np.unique(classes[classes > 0]).tolist():
        every = np.flatnonzero(classes == number)
        if len(every) > KNOWN:
            every = np.random.Generator(np.random.PCG64([seed, number])).choice(every, KNOWN, replace=False)
        found.append(np.stack(np.unravel_index(every, classes.shape), axis=-1))
    return found


def mirror(values: Shaped[np.ndarray, "x y z"], draws: Float[np.ndarray, "5"]) -> Shaped[np.ndarray, "x y z"]:
    """Each axis in its other direction or not; then a number of quarter turns in a plane whose sides are equal, if there is one."""
    values = values[tuple(slice(None, None, -1 if draw < 0.5 else 1) for draw in draws[:3])]
    planes = [plane for plane in ((0, 1), (0, 2), (1, 2)) if values.shape[plane[0]] == values.shape[plane[1]]]
    return np.rot90(values, int(draws[4] * 4), axes=planes[int(draws[3] * len(planes))]) if planes else values
