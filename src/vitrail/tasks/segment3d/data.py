"""Batches of volumes for a segmenter, files by name, and classes numbered as a model numbers them.

b batch, x y z sides of a crop or volume, x2 y2 z2 those of its classes, n voxels
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from vitrail.data.bad_files import BadFiles
from vitrail.data.images import ImageError
from vitrail.data.inputs import expand
from vitrail.data.loader import Loader, OnBad, Read, Samples
from vitrail.data.order import PlainOrder, check_share
from vitrail.data.randomness import uniforms
from vitrail.data.volumes.cases import Case, Loaded, Preparing
from vitrail.data.volumes.opening import VolumeData
from vitrail.data.volumes.pairing import volumes_in
from vitrail.data.volumes.turning import turn_crop
from vitrail.errors import VitrailError
from vitrail.learn.training.world import World
from vitrail.models.volume_segmenter import VolumeSegmenter
from vitrail.tasks.image_task import note_bad
from vitrail.tasks.segment3d.options import Options

STEPS = 32  # of an epoch, at least; with more volumes than crops in them each has its turn
BRIGHTNESS = 0.1
NAMED = 5  # bad files that are named; the others are counted
DRAWS = 17  # numbers for each crop
KNOWN = 4096  # voxels of each class of a case to put crops around
ROOM = 2**31  # bytes of volumes that are cached for the next epoch, at most
Sides = tuple[int, int, int]
Crop = tuple[Float[np.ndarray, "x y z"], Int[np.ndarray, "x y z"]]
Load = Callable[[int], Loaded]  # raises ImageError


class CaseError(ImageError):
    """A volume cannot be read any more. The reason names the file."""

    def __str__(self) -> str:
        return self.reason


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


class CropSource(Samples[Crop, VolumeBatch]):
    """Crops to learn from, a function of (seed, epoch, index). A share of `foreground` is drawn around a voxel of a class other than the
    background, every class equally often. Of a case that cannot be read any more another one takes the turn."""

    def __init__(
        self,
        load: Load,
        cases: int,
        *,
        crop: Sides,
        foreground: float = 0.5,
        varying: Varying | None = None,
        seed: int = 0,
    ) -> None:
        if not cases:
            raise VitrailError("not one volume to read")
        self.load, self.cases, self.crop, self.foreground = load, cases, crop, foreground
        self.varying, self.seed = varying or Varying(), seed
        _, first = self.next_case(0, [])
        self.spacing = first.spacing
        self.load = lru_cache(max(1, ROOM // (first.image.nbytes + first.classes.nbytes)))(load)
        self.places = lru_cache(None)(lambda number: find_places(self.load(number).classes, seed=seed))

    def next_case(self, begin: int, bad: list[ImageError]) -> tuple[int, Loaded]:
        """The first case from `begin` on, round and round, that can be loaded; those before it are added to `bad`."""
        for number in range(begin, begin + self.cases):
            try:
                return number % self.cases, self.load(number % self.cases)
            except ImageError as error:
                bad.append(error)
        raise VitrailError(f"not one of {self.cases} volumes can be read any more; {bad[-1]}")

    def sample(self, epoch: int, index: int) -> Crop:
        return self.draw(epoch, index, [])

    def samples(self, epoch: int, indices: Sequence[int]) -> Read[Crop]:
        bad = list[ImageError]()
        return Read(indices, [self.draw(epoch, index, bad) for index in indices], tuple(bad))

    def draw(self, epoch: int, index: int, bad: list[ImageError]) -> Crop:
        """The crop of this number. Cases take turns, beginning with another one each epoch."""
        draws = uniforms(self.seed, epoch, np.array([index]), count=DRAWS)[0]
        case, one = self.next_case(index + epoch, bad)
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

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[Crop]) -> VolumeBatch:
        images = torch.from_numpy(np.stack([image for image, _ in samples]))[:, None]
        classes = torch.from_numpy(np.stack([classes for _, classes in samples]).astype(np.int64))
        return VolumeBatch(images, classes, torch.tensor(indices), torch.tensor([self.spacing] * len(samples)))


class VolumeSource(Samples[Loaded, VolumeBatch]):
    """Whole volumes, one at a time."""

    def __init__(self, load: Load) -> None:
        self.load = load

    def sample(self, epoch: int, index: int) -> Loaded:
        return self.load(index)

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[Loaded]) -> VolumeBatch:
        (one,) = samples
        images, classes = torch.from_numpy(one.image)[None, None], torch.from_numpy(one.classes.astype(np.int64))[None]
        return VolumeBatch(images, classes, torch.tensor(indices), torch.tensor([one.spacing]))


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


def preparing_of(model: VolumeSegmenter) -> Preparing:
    """How files become what a model reads."""
    return Preparing(model.config.spacing, model.config.window, values_of(model))


def values_of(model: VolumeSegmenter) -> tuple[int, ...]:
    """The numbers of the classes in files."""
    return model.config.values or tuple(range(model.num_classes))


def classes_of(model: VolumeSegmenter) -> tuple[str, ...]:
    """Their names."""
    return model.labels or tuple(map(str, values_of(model)))


def match_classes(data: VolumeData, model: VolumeSegmenter) -> VolumeData:
    """Other data with the model's classes; a label that is none of them is an error when its file is read."""
    return replace(data, values=values_of(model), classes=classes_of(model))


def crop_loader(
    load: Load, cases: int, *, crop: Sides, count: int, batch: int = 1, foreground: float = 0.5, varying: Varying | None = None,
    seed: int = 0, rank: int = 0, world: int = 1, on_bad: OnBad | None = None,
) -> Loader[VolumeBatch]:  # fmt: skip
    """An epoch has `count` crops of so many cases, in full batches. They are random: their order need not be."""
    check_share(batch, world)
    source = CropSource(load, cases, crop=crop, foreground=foreground, varying=varying, seed=seed)
    order = PlainOrder(max(1, count // batch) * batch, batch=batch, rank=rank, world=world)
    return Loader(source, order, on_bad=on_bad)


def volume_loader(load: Load, cases: int, *, rank: int = 0, world: int = 1, on_bad: OnBad | None = None) -> Loader[VolumeBatch]:
    """Each case once."""
    if not cases:
        raise VitrailError("not one volume to read")
    return Loader(VolumeSource(load), PlainOrder(cases, batch=world, rank=rank, world=world), on_bad=on_bad)


def training_loader(
    options: Options, cases: Sequence[Case], model: VolumeSegmenter, bad: BadFiles | None, world: World
) -> Loader[VolumeBatch]:
    """Crops of training volumes, drawn anew each epoch."""
    assert options.crop is not None
    assert options.batch_size != "auto"
    x, y, z = options.crop
    return crop_loader(
        partial(load_case, preparing_of(model), cases),
        len(cases),
        crop=(x, y, z),
        count=max(STEPS * options.batch_size, len(cases)),
        batch=options.batch_size,
        foreground=options.foreground,
        varying=varying_of(options),
        seed=options.seed,
        rank=world.rank,
        world=world.size,
        on_bad=on_bad_case(bad, "train"),
    )


def scored_loader(
    cases: Sequence[Case], model: VolumeSegmenter, world: World | None = None, *, on_bad: OnBad | None = None
) -> Loader[VolumeBatch]:
    """Whole volumes, whose classes stay as the files have them."""
    world, load = world or World(), partial(load_case, preparing_of(model), cases, native=True)
    return volume_loader(load, len(cases), rank=world.rank, world=world.size, on_bad=on_bad)


def load_case(preparing: Preparing, cases: Sequence[Case], number: int, *, native: bool = False) -> Loaded:
    try:
        return preparing.load(cases[number], native=native)
    except VitrailError as error:
        raise CaseError(cases[number].name, str(error)) from None


def varying_of(options: Options) -> Varying:
    """How crops are augmented."""
    assert options.rotate != "auto"
    assert options.zoom != "auto"
    brightness = 0.0 if options.recipe == "plain" else BRIGHTNESS
    return Varying(flip=bool(options.flip), rotate=options.rotate, zoom=options.zoom, brightness=brightness)


def list_bad_cases(data: VolumeData) -> BadFiles:
    """What was left out when the data was opened, without a limit."""
    cases = len(data.bad) + sum(map(len, data.splits.values()))
    return BadFiles(cases, limit=1.0, files={one.name: one for one in data.bad})


def describe_bad_cases(data: VolumeData) -> list[str]:
    """What was left out, in a few lines."""
    lines = [f"left out: {one.name}: {one.reason}" for one in data.bad[:NAMED]]
    return [*lines, f"and {len(data.bad) - NAMED} more"] if len(data.bad) > NAMED else lines


def on_bad_case(bad: BadFiles | None, split: str) -> OnBad | None:
    """What notes a volume that could be read when the run began, and cannot any more; without a list such a volume is an error."""
    return None if bad is None else partial(note_bad, bad, split)


def expand_volumes(words: list[str]) -> list[Path]:
    """Files, folders (every volume in them) and globs to paths, in the order given, each once."""
    return expand(words, inside_of=volumes_in, what="volumes")
