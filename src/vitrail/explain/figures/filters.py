"""The first layer's filters as images  [Dosovitskiy+ 2021, fig. 7 left].

k filters, ch channels, p q sides
"""

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure

from vitrail.explain.figures.sheet import Sheet, shade
from vitrail.explain.filters import Filters
from vitrail.rendering import house_style, shorten

COLUMNS = 7


def draw_filters(filters: Filters) -> Figure:
    """Each filter stretched so that its largest weight, of either sign, is the end of the scale, and its share above it.

    Three channels are shown as red, green and blue, where mid-gray is 0; one channel in blue and orange, where nothing is 0; others as the mean
    over channels.
    """
    images = filters.images.double().cpu().numpy()
    colored = images.shape[1] == 3
    if images.shape[1] not in (1, 3):
        images = images.mean(axis=1, keepdims=True)
    count, _, tall, wide = images.shape
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    side, gap, label, top = 0.78, 0.1, 0.17, 0.78
    with house_style():
        sheet = Sheet(max(0.2 + columns * (side + gap), 4.6), top + rows * (side * tall / wide + gap + label) + 0.02)
        for number, (image, share) in enumerate(zip(images, filters.shares.tolist(), strict=True)):
            row, column = divmod(number, columns)
            place = (0.1 + column * (side + gap), top + label + row * (side * tall / wide + gap + label))
            sheet.image(*place, side, side * tall / wide, _stretch(image))
            sheet.write(place[0], place[1] - 0.04, f"{100 * share:.1f} %" if share >= 0.001 else "< 0.1 %", fontsize=7)
        words = shorten(filters.words[0].upper() + filters.words[1:], int(sheet.width / 0.066))
        sheet.write(0.1, 0.18, words, fontsize=7.5)
        gray = np.round(np.linspace(0, 255, 129)).astype(np.uint8)[None, :, None].repeat(3, axis=2)
        sheet.ramp(
            0.1,
            0.46,
            1.9,
            (-1.0, 0.0, 1.0),
            f"weight{' of red, green and blue' if colored else ''}, over the largest of each filter",
            pixels=gray if colored else None,
        )
        return sheet.figure


def _stretch(image: Float[np.ndarray, "ch p q"]) -> UInt8[np.ndarray, "p q _"]:
    limit = float(np.abs(image).max()) or 1.0
    if len(image) == 1:
        return shade(image[0], limit)
    return np.round(127.5 * (1 + image.transpose(1, 2, 0) / limit)).astype(np.uint8)
