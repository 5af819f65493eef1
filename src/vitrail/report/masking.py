"""What a masked autoencoder draws, for report.html: pictures it has not learned from, and one of them with ever less of it left.

b batch, h w picture, ch channels, c cells
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure

from vitrail.explain.figures.sheet import Sheet
from vitrail.rendering import house_style, shorten, to_png
from vitrail.report.completions import as_color
from vitrail.report.page import Markup, element, photograph, section

SIDE, GAP, MARGIN, TOP = 0.95, 0.08, 0.14, 0.42  # inches: a picture's longer side, between them, around, above for the words
COLUMNS = ("original", "left of it", "drawn", "drawn, with what was left")


class DrawnPicture(NamedTuple):
    """One picture, what was left of it, what was drawn, and that with what was left."""

    name: str
    hide: float  # share of its patches
    original: UInt8[np.ndarray, "h w ch"]
    left: UInt8[np.ndarray, "h w 4"]  # transparent where nothing is left
    drawn: UInt8[np.ndarray, "h w ch"]
    shown: UInt8[np.ndarray, "h w ch"]
    explained: float  # share of the hidden patches' variance that is drawn right


def draw_rows(some: Sequence[DrawnPicture], *, tell_share: bool = False) -> Figure:
    """A row for each: original, left, drawn, drawn with what was left; `tell_share` writes before it how much was hidden."""
    height, width = some[0].original.shape[:2]
    high, wide = SIDE * height / max(height, width), SIDE * width / max(height, width)
    begin = MARGIN + (0.42 if tell_share else 0.0)
    with house_style():
        sheet = Sheet(begin + 4 * (wide + GAP) + 0.62 + MARGIN, TOP + len(some) * (high + GAP) - GAP + MARGIN)
        for column, words in enumerate(COLUMNS):
            sheet.write(begin + column * (wide + GAP), TOP - 0.1, words.replace(", ", ",\n"), fontsize=7, linespacing=1.1)
        sheet.write(begin + 4 * (wide + GAP), TOP - 0.1, "explained", fontsize=7)
        for row, one in enumerate(some):
            top = TOP + row * (high + GAP)
            if tell_share:
                sheet.write(MARGIN, top + high / 2, f"{100 * one.hide:.0f} %", fontsize=7.5, va="center")
            for column, pixels in enumerate((as_color(one.original), one.left, as_color(one.drawn), as_color(one.shown))):
                sheet.picture(begin + column * (wide + GAP), top, wide, high, pixels)
            words = f"{100 * one.explained:.0f} %".replace("-", "−")
            sheet.write(begin + 4 * (wide + GAP), top + high / 2, words, fontsize=7.5, va="center")
        return sheet.figure


def show_drawn(pictures: Sequence[DrawnPicture], shares: Sequence[DrawnPicture], *, normalized: bool) -> list[Markup]:
    """The sections; none where there is no picture to show. `shares`: one picture, with more and more of it hidden."""
    if not pictures:
        return []
    colors = (
        "The model predicts each patch normalized by itself, so it says nothing of a patch's mean color and contrast: those that a hidden "
        "patch is shown with are interpolated from the patches that were left, none from the picture itself. Where they do not fit, "
        "a patch has the right drawing in the wrong color, which is no fault that the loss counts."
        if normalized
        else "The model predicts pixels as they are: all colors are its own."
    )
    note = (
        f"Pictures that were not learned from, {100 * pictures[0].hide:.0f} % of their patches hidden, always the same ones. The loss counts hidden patches "
        f"alone; what is drawn in the place of the others is not trained. {colors} Explained: the share of the variance within hidden patches that is drawn "
        "right; 0 % is each patch in its mean color."
    )
    names = ", ".join(shorten(one.name, 40) for one in pictures)
    views = [photograph(to_png(draw_rows(pictures)), f"pictures drawn from a part of their patches: {names}", pixelated=False)]
    if shares:
        told = ", ".join(f"{100 * one.hide:.0f} %" for one in shares)
        views.append(
            photograph(
                to_png(draw_rows(shares, tell_share=True)), f"the picture {shares[0].name} with {told} hidden", pixelated=False
            )
        )
    return [section("Hidden patches", *(element("figure", view, class_="view") for view in views), note=note)]
