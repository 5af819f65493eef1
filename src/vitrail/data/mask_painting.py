"""Masks as people look at them: in the colors of their classes, over the image they are of, and as a file with a palette.

h w image, ch channels
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Integer, UInt8
from PIL import Image

from vitrail.data.class_colors import Color

NOTHING: Color = (128, 128, 128)  # pixels of no class
OPACITY = 0.55
EDGE = 0.9  # of the color along the edges of a class


def paint_mask(numbers: Integer[np.ndarray, "h w"], colors: Sequence[Color]) -> UInt8[np.ndarray, "h w 3"]:
    """Each pixel in the color of its class; what has no class is gray."""
    table = np.array([*colors, NOTHING], dtype=np.uint8)
    return table[np.where((numbers >= 0) & (numbers < len(colors)), numbers, len(colors))]


def paint_over(
    image: UInt8[np.ndarray, "h w ch"],
    numbers: Integer[np.ndarray, "h w"],
    colors: Sequence[Color],
    *,
    opacity: float = OPACITY,
) -> UInt8[np.ndarray, "h w 3"]:
    """The colors over the image, stronger where a class meets another."""
    below = np.broadcast_to(image, (*image.shape[:2], 3)).astype(np.float32)
    edge = np.zeros(numbers.shape, dtype=bool)
    edge[:, 1:] |= numbers[:, 1:] != numbers[:, :-1]
    edge[1:] |= numbers[1:] != numbers[:-1]
    share = np.where(edge, EDGE, opacity)[..., None].astype(np.float32)
    return (below + share * (paint_mask(numbers, colors) - below) + 0.5).astype(np.uint8)


def to_mask_file(
    numbers: Integer[np.ndarray, "h w"], colors: Sequence[Color], values: Sequence[int] | None = None
) -> Image.Image:
    """Class numbers, or the `values` that stand for them, with the colors as their palette; of values above 255 16 bits and no
    colors. A mask folder takes either."""
    values = range(len(colors)) if values is None else values
    stored = np.array(values)[numbers]
    if max(values) > 255:
        return Image.fromarray(stored.astype(np.uint16))
    places = dict(zip(values, colors, strict=True))
    found = Image.fromarray(stored.astype(np.uint8)).convert("P")
    found.putpalette([level for place in range(max(values) + 1) for level in places.get(place, NOTHING)])
    return found
