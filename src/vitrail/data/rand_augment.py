"""RandAugment: a few operations per image, drawn from a list, all of one magnitude  [Cubuk+ 2020].

The list is the paper's; the ranges are the ones that grow with the magnitude m, as timm's "increasing" set, so that m = 0 changes
nothing but by auto-contrast and equalize, which have no strength. Signs are drawn, with even chance, where ± stands.

| operation | at magnitude m of 0 to 10 |
|---|---|
| identity, auto_contrast, equalize | no strength |
| rotate | ±30° · m/10 |
| shear_x, shear_y | ±0.3 · m/10, a length of shift for each length across, about the image's middle |
| translate_x, translate_y | ±0.45 · m/10 of the side |
| solarize | what is as bright as 1 - m/10 or brighter becomes its negative |
| posterize | 8 - round(4 · m/10) bits a channel |
| color, contrast, brightness, sharpness | factor 1 ± 0.9 · m/10: 0 is gray, flat, black or smooth, 1 the image |

Where we differ from both: a moved image is read bicubically on a ground of its own border's color, not of one gray, and
images that are not of three channels have no `color`: it is left out of the list, since it would be another identity.

b batch, ch channels, h w image, o operations per image
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.data.affine import warp
from vitrail.data.randomness import uniforms
from vitrail.errors import VitrailError

MOST = 10.0  # the largest magnitude
STREAM = 0x52616E6441756731  # joined to the seed: draws of its own, whatever else is drawn for an image
GEOMETRIC = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
LUMA = (0.299, 0.587, 0.114)  # of red, green, blue  [ITU-R BT.601]


def rand_augment(
    images: Float[Tensor, "b ch h w"], *, operations: int, magnitude: float, seed: int, epoch: int, indices: np.ndarray
) -> Float[Tensor, "b ch h w"]:
    """`operations` of the list, one after the other, drawn for each image by (seed, epoch, index) alone."""
    check(operations, magnitude)
    names = names_for(images.shape[1])
    draws = uniforms(seed ^ STREAM, epoch, indices, count=2 * operations)
    which = np.floor(draws[:, 0::2] * len(names)).astype(np.int64)  # b o
    strength = torch.from_numpy(np.where(draws[:, 1::2] < 0.5, -1.0, 1.0) * magnitude / MOST)  # b o
    for step in range(operations):
        images = apply(images, torch.from_numpy(which[:, step]), strength[:, step])
    return images


def check(operations: int, magnitude: float) -> None:
    if operations < 0:
        raise VitrailError(f"the operations of RandAugment cannot be fewer than 0, got {operations}")
    if not 0.0 <= magnitude <= MOST:
        raise VitrailError(f"the magnitude of RandAugment must be from 0 to {MOST:g}, got {magnitude}")


def names_for(channels: int) -> tuple[str, ...]:
    """The operations to draw from, the geometric ones first."""
    names = (*GEOMETRIC, "identity", *APPEARANCE)
    return names if channels == len(LUMA) else tuple(name for name in names if name != "color")


def apply(
    images: Float[Tensor, "b ch h w"], which: Int[Tensor, "b"], strength: Float[Tensor, "b"]
) -> Float[Tensor, "b ch h w"]:
    """Operation number `which` of `names_for` on each image, with a strength from -1 to 1; those of a kind together."""
    names = names_for(images.shape[1])
    order = which.argsort(stable=True)
    grouped, kinds, amounts = images[order], which[order], strength[order]  # copies, changed below slice by slice
    ends = torch.bincount(which, minlength=len(names)).cumsum(0).tolist()
    moved = ends[len(GEOMETRIC) - 1]
    if moved:
        maps = geometry(kinds[:moved], amounts[:moved], images.shape[-2], images.shape[-1])
        grouped[:moved] = warp(grouped[:moved], maps)
    for name, start, end in zip(names[1:], ends[:-1], ends[1:], strict=True):
        if name in APPEARANCE and start < end:
            grouped[start:end] = APPEARANCE[name](grouped[start:end], amounts[start:end])
    return grouped[order.argsort()]


def geometry(which: Int[Tensor, "b"], strength: Float[Tensor, "b"], height: int, width: int) -> Float[Tensor, "b 2 3"]:
    """The affine maps of the geometric operations; of the five terms only the one that was drawn is not zero."""
    turn, shear_x, shear_y, shift_x, shift_y = (strength * (which == number) for number in range(len(GEOMETRIC)))
    angle = turn * math.radians(30.0)
    rows = [
        torch.stack([angle.cos(), (0.3 * shear_x - angle.sin()) * height / width, 2 * 0.45 * shift_x], dim=1),
        torch.stack([(0.3 * shear_y + angle.sin()) * width / height, angle.cos(), 2 * 0.45 * shift_y], dim=1),
    ]
    return torch.stack(rows, dim=1)


def auto_contrast(images: Float[Tensor, "b ch h w"], strength: Float[Tensor, "b"]) -> Float[Tensor, "b ch h w"]:
    """Each channel stretched over [0, 1]; an even one stays."""
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    span = high - low
    return torch.where(span > 0, (images - low) / span.clamp(min=torch.finfo(images.dtype).tiny), images)


def equalize(images: Float[Tensor, "b ch h w"], strength: Float[Tensor, "b"]) -> Float[Tensor, "b ch h w"]:
    """The 256 levels of each channel spread so that all are equally frequent, in Pillow's whole-number arithmetic."""
    rows = images.mul(255).round().long().flatten(2).flatten(0, 1)  # b·ch, h·w
    offsets = 256 * torch.arange(len(rows))[:, None]
    counts = torch.bincount((rows + offsets).ravel(), minlength=256 * len(rows)).view(-1, 256)
    step = (counts.sum(1) - counts.gather(1, rows.amax(1, keepdim=True))[:, 0]).div(255, rounding_mode="floor")[:, None]
    table = (step // 2 + counts.cumsum(1) - counts).div(step.clamp(min=1), rounding_mode="floor").clamp(max=255)
    table = torch.where(step > 0, table, torch.arange(256))  # too few pixels, or one level: as it is
    return table.gather(1, rows).view(images.shape).to(images.dtype) / 255


def solarize(images: Float[Tensor, "b ch h w"], strength: Float[Tensor, "b"]) -> Float[Tensor, "b ch h w"]:
    threshold = (1 - strength.abs()) * 256 / 255  # in 256 levels: at strength 0 not even white is turned
    return torch.where(images < _factor(threshold, images), images, 1 - images)


def posterize(images: Float[Tensor, "b ch h w"], strength: Float[Tensor, "b"]) -> Float[Tensor, "b ch h w"]:
    size = _factor(2 ** (4 * strength.abs()).round(), images)  # levels that become one
    return torch.where(size > 1, (images * 255).round().div(size).floor() * size / 255, images)


def color(images: Float[Tensor, "b ch h w"], strength: Float[Tensor, "b"]) -> Float[Tensor, "b ch h w"]:
    return blend(gray(images), images, strength)


def contrast(images: Float[Tensor, "b ch h w"], strength: Float[Tensor, "b"]) -> Float[Tensor, "b ch h w"]:
    # Axis by axis: a sum over all of one image would be shared among the threads, and rounded as their number has it.
    return blend(gray(images).mean(3, keepdim=True).mean(2, keepdim=True), images, strength)


def brightness(images: Float[Tensor, "b ch h w"], strength: Float[Tensor, "b"]) -> Float[Tensor, "b ch h w"]:
    return blend(torch.zeros_like(images), images, strength)


def sharpness(images: Float[Tensor, "b ch h w"], strength: Float[Tensor, "b"]) -> Float[Tensor, "b ch h w"]:
    """Against the mean over 3x3 pixels with the middle one five times; the outermost pixels stay, as Pillow has it."""
    rows = images[:, :, :-2] + images[:, :, 1:-1] + images[:, :, 2:]
    square = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    smooth = images.clone()
    smooth[:, :, 1:-1, 1:-1] = (square + 4 * images[:, :, 1:-1, 1:-1]) / 13
    return blend(smooth, images, strength)


def blend(
    ground: Float[Tensor, "b #ch #h #w"], images: Float[Tensor, "b ch h w"], strength: Float[Tensor, "b"]
) -> Float[Tensor, "b ch h w"]:
    """ground + f (images - ground) with f = 1 + 0.9 strength: from a tenth of the image to nearly twice."""
    return (images + 0.9 * _factor(strength, images) * (images - ground)).clamp(0, 1)


def gray(images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b 1 h w"]:
    """How bright each pixel is: as the eye weighs red, green and blue, or the mean of other channels."""
    shares = LUMA if images.shape[1] == len(LUMA) else (1 / images.shape[1],) * images.shape[1]
    return torch.stack([share * channel for share, channel in zip(shares, images.unbind(1), strict=True)]).sum(0)[:, None]


def _factor(numbers: Float[Tensor, "b"], like: Tensor) -> Float[Tensor, "b 1 1 1"]:
    return numbers.to(like.dtype)[:, None, None, None]


APPEARANCE: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {
        "auto_contrast": auto_contrast,
        "equalize": equalize,
        "solarize": solarize,
        "posterize": posterize,
        "contrast": contrast,
        "brightness": brightness,
        "sharpness": sharpness,
        "color": color,
    }
)
