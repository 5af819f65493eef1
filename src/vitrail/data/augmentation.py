"""Small random changes to training images, a function of (seed, epoch, sample index) and of nothing else.

b batch, ch channels, h w image
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.data.affine import slide, warp
from vitrail.data.rand_augment import check, rand_augment
from vitrail.data.randomness import uniforms
from vitrail.errors import VitrailError

# Joined to the seed, so that an option which came later draws numbers of its own and changes nobody else's.
ERASING, NOISE, CROPPING = 0x4572617365486F6C, 0x4572617365466C6C, 0x43726F7057696E64
SMALLEST, LARGEST, NARROWEST = 0.02, 0.33, 0.3  # of an erased rectangle: share of the area, shorter side to longer side
FLATTEST = 4 / 3  # aspect of a crop, and its inverse  [Szegedy+ 2015, section 6]


@dataclass(frozen=True, kw_only=True, slots=True)
class Augmentation:
    """How far an image may be moved and changed; all zero leaves it alone."""

    flip: bool = False  # left and right, half of the time
    shift: float = 0.0  # share of a side, each way
    rotate: float = 0.0  # degrees, each way
    zoom: float = 0.0  # 0.1: by a factor between 1/1.1 and 1.1
    cutout: float = 0.0  # side of a square set to the mean, as a share of the image's
    operations: int = 0  # of RandAugment, one after the other
    magnitude: float = 9.0  # of RandAugment, from 0 to 10
    erase: float = 0.0  # probability that a rectangle is replaced by noise
    min_crop: float = 1.0  # share of the area that a random crop keeps at least; 1: whole images

    def __post_init__(self) -> None:
        check(self.operations, self.magnitude)
        if not 0.0 <= self.erase <= 1.0:
            raise VitrailError(f"erase is a probability, from 0 to 1: got {self.erase}")
        if not 0.0 < self.min_crop <= 1.0:
            raise VitrailError(f"min_crop is a share of the area, above 0 and at most 1: got {self.min_crop}")

    def __bool__(self) -> bool:
        others = (self.shift, self.rotate, self.zoom, self.cutout, self.operations, self.erase)
        return self.flip or self.min_crop < 1 or any(others)


def augment(
    images: Float[Tensor, "b ch h w"], how: Augmentation, *, seed: int, epoch: int, indices: np.ndarray
) -> Float[Tensor, "b ch h w"]:
    """Flip, shift, turn, zoom and crop by one affine map per image, or by whole pixels if it only flips and shifts; then RandAugment; then what hides a part."""
    if not how:
        return images
    draws = torch.from_numpy(uniforms(seed, epoch, indices, count=7))  # b 7
    signed = 2 * draws - 1
    height, width = images.shape[-2:]
    mirrored = (draws[:, 0] < 0.5) & how.flip
    if how.rotate or how.zoom or how.min_crop < 1:
        angle = signed[:, 1] * math.radians(how.rotate)
        scale = (1 + how.zoom) ** signed[:, 2]
        mirror = torch.where(mirrored, -1.0, 1.0)
        cos, sin = angle.cos() * scale, angle.sin() * scale
        rows = [
            torch.stack([cos * mirror, -sin * height / width, 2 * how.shift * signed[:, 3]], dim=1),
            torch.stack([sin * mirror * width / height, cos, 2 * how.shift * signed[:, 4]], dim=1),
        ]
        maps = torch.stack(rows, dim=1)
        if how.min_crop < 1:
            maps = crop_maps(maps, how.min_crop, seed=seed, epoch=epoch, indices=indices)
        images = warp(images, maps)
    elif how.flip or how.shift:
        right, down = (how.shift * signed[:, 3:5] * torch.tensor([width, height])).round().int().unbind(1)
        images = slide(images, mirrored=mirrored, down=down, right=right)
    if how.operations:
        images = rand_augment(
            images, operations=how.operations, magnitude=how.magnitude, seed=seed, epoch=epoch, indices=indices
        )
    if how.cutout:
        images = cut_out(images, how.cutout, draws[:, 5:])
    return erase(images, how.erase, seed=seed, epoch=epoch, indices=indices) if how.erase else images


def crop_maps(
    maps: Float[Tensor, "b 2 3"], least: float, *, seed: int, epoch: int, indices: np.ndarray
) -> Float[Tensor, "b 2 3"]:
    """The maps, then a crop: of a share of the area from `least` to 1, an aspect from 3/4 to 4/3, anywhere inside  [Szegedy+ 2015, section 6].

    Areas are uniform, aspects in their logarithm; a crop longer than the image is cut to it.
    """
    area, aspect, *places = torch.from_numpy(uniforms(seed ^ CROPPING, epoch, indices, count=4)).unbind(1)
    area, ratio = least + area * (1 - least), FLATTEST ** (2 * aspect - 1)
    sides = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], dim=1).clamp(max=1)  # b 2: width, height
    centers = (2 * torch.stack(places, dim=1) - 1) * (1 - sides)  # in coordinates from -1 to 1
    found = maps * sides[:, :, None]
    found[:, :, 2] += centers
    return found


def cut_out(images: Tensor, share: float, places: Tensor) -> Tensor:
    """A square anywhere, partly outside too, set to the image's own mean  [DeVries+ 2017]."""
    height, width = images.shape[-2:]
    side = max(1, round(share * min(height, width)))
    top, left = ((places * torch.tensor([height, width])).floor().int() - side // 2).unbind(1)
    rows, columns = torch.arange(height) - top[:, None], torch.arange(width) - left[:, None]  # b h, b w
    inside = ((rows >= 0) & (rows < side))[:, None, :, None] & ((columns >= 0) & (columns < side))[:, None, None]
    # Axis by axis: a sum over all of one image would be shared among the threads, and rounded as their number has it.
    return torch.where(inside, images.mean(3, keepdim=True).mean(2, keepdim=True), images)


def erase(
    images: Float[Tensor, "b ch h w"], probability: float, *, seed: int, epoch: int, indices: np.ndarray
) -> Float[Tensor, "b ch h w"]:
    """With a probability a rectangle within the image becomes noise  [Zhong+ 2020, algorithm 1].

    Noise that is uniform over [0, 1] in each value, the paper's best filling. A rectangle has 2 to 33 % of the area, as timm has it
    (the paper: 2 to 40 %), and an aspect of 0.3 to 1/0.3, tall as often as wide. The paper draws again until the rectangle fits;
    here the aspect is drawn among those that fit.
    """
    draws = uniforms(seed ^ ERASING, epoch, indices, count=5)
    out, channels = images.clone(), images.shape[1]
    for number in np.flatnonzero(draws[:, 0] < probability):
        top, left, height, width = rectangle(draws[number, 1:], images.shape[-2], images.shape[-1])
        noise = uniforms(seed ^ NOISE, epoch, indices[[number]], count=channels * height * width)
        hole = out[number, :, top : top + height, left : left + width]
        hole.copy_(torch.from_numpy(noise).view(channels, height, width))
    return out


def rectangle(draws: Float[np.ndarray, "4"], height: int, width: int) -> tuple[int, int, int, int]:
    """Top, left, height and width of what to erase, from numbers in [0, 1) for area, aspect, top and left."""
    share = SMALLEST + float(draws[0]) * (LARGEST - SMALLEST)
    flat, tall = share * height / width, height / (share * width)  # aspects at which the rectangle is as wide, as high, as all
    lowest = min(max(NARROWEST, flat), tall)
    highest = max(min(1 / NARROWEST, tall), lowest)
    aspect = lowest * (highest / lowest) ** float(draws[1])  # height over width; uniform in its logarithm
    area = share * height * width
    rows = min(max(1, round(math.sqrt(area * aspect))), height)
    columns = min(max(1, round(math.sqrt(area / aspect))), width)
    return int(draws[2] * (height - rows + 1)), int(draws[3] * (width - columns + 1)), rows, columns
