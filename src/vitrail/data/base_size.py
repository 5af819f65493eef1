"""Images at their base size, at which one just covers the size that a model is trained at, with its aspect kept; windows cut from them.

ch channels, h w image
"""

import math

import numpy as np
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from vitrail.data.image_store import to_channels
from vitrail.data.joint import Color, Sample, crop, pad
from vitrail.data.transforms import normalize, to_unit
from vitrail.preprocessing import Preprocessing

MOST_AREA = 8  # of a base size, in areas of the training size: a panorama must not fill the memory


def base_size(size: tuple[int, int], wanted: tuple[int, int], *, factor: float = 1.0) -> tuple[int, int]:
    """What an image of `size` (height, width) is resized to: the least at which it covers `wanted`, times `factor`."""
    scale = max(wanted[0] / size[0], wanted[1] / size[1])
    scale = min(scale, math.sqrt(MOST_AREA * wanted[0] * wanted[1] / (size[0] * size[1]))) * factor
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def to_base(image: np.ndarray, preprocessing: Preprocessing, *, factor: float = 1.0) -> Float[Tensor, "1 ch h w"]:
    """A whole image (h w ch) as a model's input, at its base size."""
    size = base_size((image.shape[0], image.shape[1]), preprocessing.size, factor=factor)
    if size != image.shape[:2]:
        stored = Image.fromarray(image.squeeze(-1) if image.shape[2] == 1 else image)
        image = to_channels(stored.resize((size[1], size[0]), Image.Resampling.BILINEAR), preprocessing.channels)
    return normalize(to_unit(image[None]), preprocessing)


def cut_window(sample: Sample, size: tuple[int, int], draws: tuple[float, float], *, fill: Color) -> Sample:
    """A window of `size` at random; where the image is smaller, a random part of the room is put before it."""
    height, width = sample.image.height, sample.image.width
    short = [max(0, wanted - side) for wanted, side in zip(size, (height, width), strict=True)]
    if any(short):
        top, left = (int(draw * (room + 1)) for draw, room in zip(draws, short, strict=True))
        sample = pad(sample, top, left, short[0] - top, short[1] - left, fill=fill)
    room = (sample.image.height - size[0], sample.image.width - size[1])
    top, left = (int(draw * (free + 1)) for draw, free in zip(draws, room, strict=True))
    return crop(sample, top, left, *size) if any(room) else sample


def fill_of(preprocessing: Preprocessing) -> Color:
    """The mean color, which is 0 to a model; one gray where there is one channel."""
    levels = [min(255, max(0, round(255 * mean))) for mean in preprocessing.mean]
    return (levels[0], levels[1], levels[2]) if len(levels) == 3 else levels[0]
