"""An image with its reference points, and what each of them reads of it, in a row.

y x image, c channels, gh gw grid, q points
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from torch import Tensor

from vitrail.explain.figures.overlay import end_words, fit_between, overlay, scale, scale_end, times_even
from vitrail.explain.figures.sheet import Sheet
from vitrail.rendering import ORANGE, house_style

CELL, GAP, TOP = 1.25, 0.06, 0.30  # inches
OUTLINE = [withStroke(linewidth=2.0, foreground="black")]  # numbers are to be read on any image
DETAIL = 256  # pixels of the longer side at most


def draw_references(
    image: UInt8[np.ndarray, "y x c"],
    points: Sequence[tuple[int, int]],
    maps: Float[Tensor, "q gh gw"],
    *,
    highest: float | None = None,
) -> Figure:
    """On one scale, in times an even share; a dot marks the point that reads. The first image has all of them, numbered."""
    shares = times_even(maps)
    highest = scale_end(shares) if highest is None else highest
    (tall, wide), (rows, columns) = image.shape[:2], shares.shape[1:]
    across = CELL * min(1.0, wide / tall)
    down = across * tall / wide
    plain = fit_between(image, largest=DETAIL)
    plain = np.broadcast_to(plain, (*plain.shape[:2], 3))  # gray ones too
    with house_style():
        sheet = Sheet(0.06 + (len(points) + 1) * (across + GAP), TOP + down + 0.42)
        for number in range(len(points) + 1):
            left = 0.03 + number * (across + GAP)
            pixels = plain if number == 0 else overlay(image, shares[number - 1], highest, largest=DETAIL)
            sheet.image(left, TOP, across, down, pixels, frame=False)
            sheet.write(left + across / 2, TOP - 0.08, "image" if number == 0 else str(number), ha="center", fontsize=8)
            for which, (row, column) in enumerate(points, start=1):
                if number in (0, which):
                    place = (left + (column + 0.5) * across / columns, TOP + (row + 0.5) * down / rows)
                    sheet.page.plot(*place, "o", color=ORANGE, markeredgecolor="white", markeredgewidth=1.0, markersize=6.5)
                    if number == 0:
                        sheet.write(place[0], place[1] - 0.07, str(which), ha="center", fontsize=7, color="white", fontweight="bold",
                                    path_effects=OUTLINE)  # fmt: skip
        legend = TOP + down + 0.14
        sheet.image(0.14, legend, 0.85, 0.12, scale(highest), frame=False)
        sheet.write(0.10, legend + 0.06, "0", ha="right", va="center", fontsize=7.5)
        sheet.write(1.04, legend + 0.06, f"{end_words(highest, shares)} an even share", va="center", fontsize=7.5)
        return sheet.figure
