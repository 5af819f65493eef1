"""The first layer's filters as pictures  [Dosovitskiy+ 2021, fig. 7 left].

k filters, ch channels, p q sides
"""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from vitrail.explain.figures.sheet import Sheet, finish_ramp, shade
from vitrail.explain.filters import Filters
from vitrail.rendering import house_style, shorten

COLUMNS = 7


def draw_filters(filters: Filters) -> Figure:
    """Each filter stretched so that its largest weight, of either sign, is the end of the scale, and its share above it.

    Three channels are shown as red, green and blue, where mid-gray is 0; one channel in blue and orange, where nothing is 0; others as the mean
    over channels.
    """
    pictures = filters.pictures.double().cpu().numpy()
    colored = pictures.shape[1] == 3
    if pictures.shape[1] not in (1, 3):
        pictures = pictures.mean(axis=1, keepdims=True)
    count, _, tall, wide = pictures.shape
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    side, gap, label, top = 0.78, 0.1, 0.17, 0.78
    with house_style():
        sheet = Sheet(max(0.2 + columns * (side + gap), 4.6), top + rows * (side * tall / wide + gap + label) + 0.02)
        for number, (picture, share) in enumerate(zip(pictures, filters.shares.tolist(), strict=True)):
            row, column = divmod(number, columns)
            place = (0.1 + column * (side + gap), top + label + row * (side * tall / wide + gap + label))
            axes = sheet.picture_axes(*place, side, side * tall / wide)
            axes.imshow(_stretch(picture), interpolation="none", aspect="auto")
            sheet.write(place[0], place[1] - 0.04, f"{100 * share:.1f} %" if share >= 0.001 else "< 0.1 %", fontsize=7)
        words = shorten(filters.words[0].upper() + filters.words[1:], int(sheet.width / 0.066))
        sheet.write(0.1, 0.18, words, fontsize=7.5)
        ends = ("−largest", "0", "largest weight of each filter")
        if colored:
            axes = sheet.axes(0.1, 0.46, 1.9, 0.1)
            ramp = np.repeat(np.linspace(0, 1, 129)[None, :, None], 3, axis=2)
            axes.imshow(ramp, interpolation="none", aspect="auto", extent=(-1, 1, 0, 1))
            finish_ramp(axes, "weight of red, green and blue", ticks=(-1.0, 0.0, 1.0), labels=ends)
        else:
            axes = sheet.ramp(0.1, 0.46, 1.9, -1.0, 1.0, "weight", labels=ends)
        axes.get_xticklabels()[2].set(horizontalalignment="center")
        return sheet.figure


def _stretch(picture: Float[np.ndarray, "ch p q"]) -> np.ndarray:
    limit = float(np.abs(picture).max()) or 1.0
    return shade(picture[0], limit) if len(picture) == 1 else 0.5 + 0.5 * picture.transpose(1, 2, 0) / limit
