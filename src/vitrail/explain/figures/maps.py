"""Maps of all layers and heads, on one scale.

l layers, h heads, gh gw grid, y x image, c channels
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from vitrail.explain.figures.overlay import end_words, overlay, scale, scale_end, times_even
from vitrail.explain.figures.sheet import Sheet, shade
from vitrail.rendering import house_style

WIDEST, LARGEST_CELL = 7.4, 1.25  # inches
DETAIL = 160  # pixels of a small image's longer side at most


def draw_maps(
    maps: Float[Tensor, "l h gh gw"],
    *,
    image: UInt8[np.ndarray, "y x c"] | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    highest: float | None = None,
) -> Figure:
    """One row per layer, one column per head, in times an even share: over the image, or patch by patch without one."""
    shares = times_even(maps)
    highest = scale_end(shares) if highest is None else highest
    rows, columns = shares.shape[:2]
    tall, wide = shares.shape[2:] if image is None else image.shape[:2]
    left, gap, top = 0.66, 0.06, 0.82
    across = min(LARGEST_CELL, (WIDEST - left) / columns - gap, LARGEST_CELL * wide / tall)
    down = across * tall / wide
    with house_style():
        sheet = Sheet(max(left + columns * (across + gap) + 0.06, 3.2), top + rows * (down + gap) + 0.06)
        for i, layer in enumerate(layers or range(rows)):
            above = top + i * (down + gap)
            sheet.write(left - 0.08, above + down / 2, f"layer {layer}", ha="right", va="center", fontsize=7.5)
            for j in range(columns):
                drawn = (
                    shade(shares[i, j], highest)
                    if image is None
                    else overlay(image, shares[i, j], highest, smallest=DETAIL // 2, largest=DETAIL)
                )
                sheet.image(left + j * (across + gap), above, across, down, drawn)
        for j, head in enumerate(heads or range(columns)):
            words = f"head {head}" if across > 0.45 else str(head)
            sheet.write(left + j * (across + gap) + across / 2, top - 0.06, words, ha="center", fontsize=7.5)
        sheet.ramp(
            left,
            0.26,
            1.8,
            (0.0, highest),
            "attention, times an even share",
            labels=("0", end_words(highest, shares)),
            pixels=None if image is None else scale(highest),
        )
        return sheet.figure
