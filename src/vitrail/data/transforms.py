"""Applying a preprocessing description: one image to an array, a batch of arrays to a model's input.

b batch, h w image, ch channels
"""

import math
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from vitrail.data.dataset import Split
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing
from vitrail.ragged import Ragged

RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


def fit_image(image: Image.Image, preprocessing: Preprocessing) -> np.ndarray:
    """The image at the model's size and channels: uint8, h w ch."""
    if preprocessing.channels not in (1, 3):
        raise VitrailError(f"an image has 1 (gray) or 3 (color) channels; the model wants {preprocessing.channels}")
    image = image.convert("L" if preprocessing.channels == 1 else "RGB")
    height, width = preprocessing.size
    if image.size != (width, height):
        box = center_box(image.size, (width, height)) if preprocessing.fit == "crop" else None
        image = image.resize((width, height), RESAMPLING[preprocessing.interpolation], box=box, reducing_gap=3.0)
    array = np.asarray(image)
    return array[:, :, None] if preprocessing.channels == 1 else array


def fit_aspect(image: Image.Image, preprocessing: Preprocessing, *, multiple: int) -> np.ndarray:
    """The image as it is, of at most the area of the model's size: for models that take images of any size."""
    size = aspect_size((image.height, image.width), preprocessing.size, multiple=multiple)
    return fit_image(image, replace(preprocessing, size=size, fit="squash"))


def aspect_size(size: tuple[int, int], largest: tuple[int, int], *, multiple: int) -> tuple[int, int]:
    """What an image of `size` (height, width) is resized to, so that its area is at most that of `largest`, its sides are multiples of
    `multiple`, and its aspect is nearly its own. One that is smaller already is not enlarged, but for a side below `multiple`."""
    area = largest[0] * largest[1] // multiple**2  # in squares of multiple x multiple, as the rest
    if not area:
        raise VitrailError(f"an image of {largest[0]}x{largest[1]} pixels has no room for a square of {multiple}x{multiple}")
    scale = min(1.0, math.sqrt(largest[0] * largest[1] / (size[0] * size[1]))) / multiple
    exact = [max(1e-9, side * scale) for side in size]
    sides = [max(1, round(side)) for side in exact]
    while sides[0] * sides[1] > area:  # of the two, the one that was rounded up by more
        axis = max((axis for axis in (0, 1) if sides[axis] > 1), key=lambda axis: sides[axis] / exact[axis])
        sides[axis] = min(sides[axis] - 1, max(1, area // sides[1 - axis]))
    return sides[0] * multiple, sides[1] * multiple


def read_fitted(split: Split, index: int, preprocessing: Preprocessing) -> np.ndarray:
    """One image of a split at the model's size and channels, decoded no finer than that needs."""
    return fit_image(split.read(index, target=preprocessing.size), preprocessing)


def center_box(size: tuple[int, int], target: tuple[int, int]) -> tuple[float, float, float, float]:
    """The largest box of the target's aspect ratio in the middle of an image: x0 y0 x1 y1. Sizes are (width, height)."""
    scale = min(size[0] / target[0], size[1] / target[1])
    width, height = min(target[0] * scale, size[0]), min(target[1] * scale, size[1])  # rounding must not lead outside
    left, top = (size[0] - width) / 2, (size[1] - height) / 2
    return left, top, left + width, top + height


def to_unit(images: UInt8[np.ndarray, "b h w ch"]) -> Float[Tensor, "b ch h w"]:
    """Bytes to floats in [0, 1], channels first."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().float().div_(255)


def normalize(images: Float[Tensor, "b ch h w"], preprocessing: Preprocessing) -> Float[Tensor, "b ch h w"]:
    """(x - mean) / std for each channel."""
    return (images - channelwise(preprocessing.mean, images)).div_(channelwise(preprocessing.std, images))


def denormalize(images: Float[Tensor, "b ch h w"], preprocessing: Preprocessing) -> Float[Tensor, "b ch h w"]:
    """`normalize` backwards: x std + mean."""
    return images * channelwise(preprocessing.std, images) + channelwise(preprocessing.mean, images)


def channelwise(values: tuple[float, ...], like: Tensor) -> Float[Tensor, "ch 1 1"]:
    """A number for each channel, to be computed with."""
    return torch.tensor(values, device=like.device, dtype=like.dtype)[:, None, None]


def to_bytes(images: Float[Tensor, "b ch h w"], preprocessing: Preprocessing) -> UInt8[np.ndarray, "b h w ch"]:
    """A model's input as images again: `to_unit` and `normalize` backwards, exactly where nothing came between."""
    unit = denormalize(images.detach().float().cpu(), preprocessing)
    return (255 * unit).round_().clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).numpy()


def prepare(images: list[Image.Image], preprocessing: Preprocessing) -> Float[Tensor, "b ch h w"]:
    """Images of any size and mode to a model's input."""
    return normalize(to_unit(np.stack([fit_image(image, preprocessing) for image in images])), preprocessing)


def prepare_aspect(images: list[Image.Image], preprocessing: Preprocessing, *, multiple: int) -> Ragged:
    """The same for a model that takes images in their own aspect."""
    arrays = [fit_aspect(image, preprocessing, multiple=multiple) for image in images]
    return Ragged.join([normalize(to_unit(np.stack([array])), preprocessing)[0] for array in arrays])


def measure(arrays: UInt8[np.ndarray, "b h w ch"]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, in [0, 1], rounded so that they read well in a config."""
    unit = arrays.astype(np.float64) / 255
    mean, std = unit.mean((0, 1, 2)), unit.std((0, 1, 2)).clip(min=1e-2)
    return tuple(round(float(m), 4) for m in mean), tuple(round(float(s), 4) for s in std)
