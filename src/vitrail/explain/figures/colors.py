"""Images and the colors of their tokens, side by side.

b images, gh gw grid, h w image
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from vitrail.explain.figures.sheet import Sheet
from vitrail.rendering import house_style

COLUMNS = 6
NAMES = ("first component", "second", "third")


def draw_colors(colors: Float[Tensor, "b gh gw 3"], images: Sequence[UInt8[np.ndarray, "_ _ _"]] | None = None) -> Figure:
    """Patch by patch, below the image; each of its own shape."""
    numbers = colors.double().cpu().numpy()
    count, columns = len(numbers), min(COLUMNS, len(numbers))
    tall, wide = numbers.shape[1:3] if images is None or not len(images) else images[0].shape[:2]
    across = min(1.15, 1.6 * wide / tall)
    down, gap, top = across * tall / wide, 0.08, 0.62
    each = (1 if images is None else 2) * (down + gap / 2) + 2 * gap
    with house_style():
        sheet = Sheet(max(0.2 + columns * (across + gap), 4.3), top + -(-count // columns) * each)
        for number in range(count):
            row, column = divmod(number, columns)
            left, above = 0.1 + column * (across + gap), top + row * each
            if images is not None:
                image = images[number]
                shown = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
                sheet.image(left, above, across, down, shown)
                above += down + gap / 2
            sheet.image(left, above, across, down, _bytes(numbers[number]))
        for channel, name in enumerate(NAMES):
            ramp = np.full((1, 65, 3), 0.5)
            ramp[0, :, channel] = np.linspace(0, 1, 65)
            place = 0.1 + 1.42 * channel
            sheet.ramp(place, 0.22, 1.2, (0.0, 1.0), name, labels=("1 %", "99 % of patches"), pixels=_bytes(ramp))
        return sheet.figure


def _bytes(colors: Float[np.ndarray, "h w 3"]) -> UInt8[np.ndarray, "h w 3"]:
    return np.round(255 * colors).astype(np.uint8)
