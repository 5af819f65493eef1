"""Batches for dense tasks: crops of pictures with their masks to learn from, and whole pictures to measure on.

A picture is first brought to its base size, at which it just covers the size that the model is trained at, with its aspect kept. A
training crop is cut from it at a random scale; to measure, the picture is given whole, and its mask as it is stored.

b batch, ch channels, h w crop, p q picture
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from vitrail.data.dataset import Split
from vitrail.data.images import PictureError
from vitrail.data.joint import Color, Movement, Sample, crop, move, pad, resize
from vitrail.data.loading import Key, Loader, Order
from vitrail.data.masked import annotations_of, check_mask, read_sample, to_numbers
from vitrail.data.picture_store import to_channels
from vitrail.data.randomness import uniforms
from vitrail.data.transforms import normalize, to_unit
from vitrail.preprocessing import Preprocessing

MOST_AREA = 8  # of a base size, in areas of the training size: a panorama must not fill the memory
MOVES = 10  # random numbers that `joint.move` uses


class DenseBatch(NamedTuple):
    """What a segmenter learns from; masks hold class numbers, `annotations.IGNORE` where there is none."""

    images: Float[Tensor, "b ch h w"]
    masks: Int[Tensor, "b h w"]
    indices: Int[Tensor, "b"]


class WholePicture(NamedTuple):
    """One picture at its base size and its mask at the size that it is stored at."""

    image: Float[Tensor, "1 ch h w"]
    mask: Int[Tensor, "p q"]
    number: int  # in its split
    name: str


class FetchedDense(NamedTuple):
    """What a worker hands over, as `data.loading.Fetched`."""

    batch: DenseBatch | list[WholePicture] | None
    bad: tuple[PictureError, ...] = ()


class Crops(Dataset[FetchedDense]):
    """Sample i of an epoch is a crop of picture i: how it is scaled, where it is cut and how it is changed are functions of
    (seed, epoch, i)."""

    def __init__(
        self, split: Split, preprocessing: Preprocessing, *, classes: int, how: Movement, zoom: float, seed: int
    ) -> None:
        """Of a base picture by a factor from 1 / (1 + zoom) to 1 + zoom."""
        self.split, self.preprocessing, self.classes = split, preprocessing, classes
        self.how, self.zoom, self.seed = how, zoom, seed

    def __getitems__(self, keys: list[Key]) -> FetchedDense:
        images, masks, kept, bad = list[np.ndarray](), list[np.ndarray](), list[int](), list[PictureError]()
        for epoch, index in keys:
            try:
                sample = self.cut(index, epoch)
            except PictureError as error:
                bad.append(error)
                continue
            assert sample.annotations.mask is not None
            images.append(to_channels(sample.picture, self.preprocessing.channels))
            masks.append(to_numbers(sample.annotations.mask))
            kept.append(index)
        if not kept:
            return FetchedDense(None, tuple(bad))
        pictures = normalize(to_unit(np.stack(images)), self.preprocessing)
        return FetchedDense(
            DenseBatch(pictures, torch.from_numpy(np.stack(masks)), torch.tensor(kept, dtype=torch.int64)), tuple(bad)
        )

    def cut(self, index: int, epoch: int) -> Sample:
        size = self.preprocessing.size
        larger = (math.ceil(size[0] * (1 + self.zoom)), math.ceil(size[1] * (1 + self.zoom)))
        sample = read_sample(self.split, index, classes=self.classes, target=larger)
        draws = uniforms(self.seed, epoch, np.array([index]), count=MOVES + 3)[0, MOVES:].tolist()
        factor = (1 + self.zoom) ** (2 * draws[0] - 1)
        base = base_size((sample.picture.height, sample.picture.width), size, factor=factor)
        if base != (sample.picture.height, sample.picture.width):
            sample = resize(sample, base)
        sample = cut_window(sample, size, (draws[1], draws[2]), fill=fill_of(self.preprocessing))
        return move(sample, self.how, seed=self.seed, epoch=epoch, index=index, fill=fill_of(self.preprocessing))


class WholePictures(Dataset[FetchedDense]):
    """Pictures one after the other, always alike."""

    def __init__(self, split: Split, preprocessing: Preprocessing, *, classes: int) -> None:
        self.split, self.preprocessing, self.classes = split, preprocessing, classes

    def __getitems__(self, keys: list[Key]) -> FetchedDense:
        found, bad = list[WholePicture](), list[PictureError]()
        for _, index in keys:
            try:
                found.append(self.read(index))
            except PictureError as error:
                bad.append(error)
        return FetchedDense(found or None, tuple(bad))

    def read(self, index: int) -> WholePicture:
        size, name = self.preprocessing.size, self.split.name(index)
        picture = self.split.read(index, target=size)
        mask = check_mask(annotations_of(self.split, index), name, (picture.height, picture.width), classes=self.classes)
        image = to_base(to_channels(picture, self.preprocessing.channels), self.preprocessing)
        return WholePicture(image, torch.from_numpy(to_numbers(mask)), index, name)


class DenseLoader(Loader):
    """Passes over crops or whole pictures, each from any batch on; what cannot be learned from is left out and told to `on_bad`."""

    def __init__(
        self,
        pictures: Crops | WholePictures,
        order: Order,
        *,
        workers: int = 0,
        on_bad: Callable[[PictureError], None] | None = None,
    ) -> None:
        self.connect(order, pictures, workers=workers, on_bad=on_bad)


def crop_loader(
    split: Split, preprocessing: Preprocessing, *, classes: int, batch: int, how: Movement, zoom: float = 0.0, seed: int = 0,
    workers: int = 0, on_bad: Callable[[PictureError], None] | None = None, rank: int = 0, world: int = 1,
) -> DenseLoader:  # fmt: skip
    """A crop of each picture an epoch, in an order that depends on (seed, epoch) only."""
    order = Order(np.zeros(len(split), dtype=np.int64), batch=batch, shuffle=True, seed=seed, rank=rank, world=world)
    crops = Crops(split, preprocessing, classes=classes, how=how, zoom=zoom, seed=seed)
    return DenseLoader(crops, order, workers=workers, on_bad=on_bad)


def whole_loader(
    split: Split, preprocessing: Preprocessing, *, classes: int, batch: int = 8, workers: int = 0,
    on_bad: Callable[[PictureError], None] | None = None, rank: int = 0, world: int = 1,
) -> DenseLoader:  # fmt: skip
    """Every picture once, whole."""
    order = Order(np.zeros(len(split), dtype=np.int64), batch=batch * world, shuffle=False, seed=0, rank=rank, world=world)
    return DenseLoader(WholePictures(split, preprocessing, classes=classes), order, workers=workers, on_bad=on_bad)


def base_size(size: tuple[int, int], wanted: tuple[int, int], *, factor: float = 1.0) -> tuple[int, int]:
    """What a picture of `size` (height, width) is resized to: the least at which it covers `wanted`, times `factor`."""
    scale = max(wanted[0] / size[0], wanted[1] / size[1])
    scale = min(scale, math.sqrt(MOST_AREA * wanted[0] * wanted[1] / (size[0] * size[1]))) * factor
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def to_base(picture: np.ndarray, preprocessing: Preprocessing, *, factor: float = 1.0) -> Float[Tensor, "1 ch h w"]:
    """A whole picture (h w ch) as a model's input, at its base size."""
    size = base_size((picture.shape[0], picture.shape[1]), preprocessing.size, factor=factor)
    if size != picture.shape[:2]:
        stored = Image.fromarray(picture.squeeze(-1) if picture.shape[2] == 1 else picture)
        picture = to_channels(stored.resize((size[1], size[0]), Image.Resampling.BILINEAR), preprocessing.channels)
    return normalize(to_unit(picture[None]), preprocessing)


def cut_window(sample: Sample, size: tuple[int, int], draws: tuple[float, float], *, fill: Color) -> Sample:
    """A window of `size` at random; where the picture is smaller, a random part of the room is put before it."""
    height, width = sample.picture.height, sample.picture.width
    short = [max(0, wanted - side) for wanted, side in zip(size, (height, width), strict=True)]
    if any(short):
        top, left = (int(draw * (room + 1)) for draw, room in zip(draws, short, strict=True))
        sample = pad(sample, top, left, short[0] - top, short[1] - left, fill=fill)
    room = (sample.picture.height - size[0], sample.picture.width - size[1])
    top, left = (int(draw * (free + 1)) for draw, free in zip(draws, room, strict=True))
    return crop(sample, top, left, *size) if any(room) else sample


def fill_of(preprocessing: Preprocessing) -> Color:
    """The mean color, which is 0 to a model; one gray where there is one channel."""
    levels = [min(255, max(0, round(255 * mean))) for mean in preprocessing.mean]
    return (levels[0], levels[1], levels[2]) if len(levels) == 3 else levels[0]
