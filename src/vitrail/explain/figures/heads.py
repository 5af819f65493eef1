"""How widely heads attend, and how differently from each other.

l layers, h heads
"""

import math

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from vitrail.explain.figures.dots import draw_dots
from vitrail.explain.figures.sheet import Sheet, shade
from vitrail.rendering import house_style

WIDEST = 7.4  # inches


def draw_entropy(bits: Float[Tensor, "l h"], *, keys: int | None = None) -> Figure:
    """Bits by layer and head; `keys` draws the line of an even look at so many."""
    return draw_dots(
        bits.double().cpu().numpy(),
        title="How widely heads attend",
        unit="entropy, bits",
        reference=None if keys is None else math.log2(keys),
        reference_words="" if keys is None else f"even look at all {keys} keys",
    )


def draw_divergence(divergence: Float[Tensor, "l h h"]) -> Figure:
    """A square of heads by heads for each layer, all on one scale from 0 to the largest divergence there is."""
    numbers = divergence.double().cpu().numpy()
    layers, heads = numbers.shape[:2]
    limit = float(np.nanmax(numbers, initial=0.0)) or 1.0
    side = min(1.3, max(0.8, 0.16 * heads))
    gap_across, gap_down, left, top = 0.3, 0.42, 0.3, 1.02
    columns = min(layers, int((WIDEST - left + gap_across) / (side + gap_across)))
    rows = -(-layers // columns)
    with house_style():
        sheet = Sheet(max(left + columns * (side + gap_across), 3.9), top + rows * (side + gap_down))
        for layer in range(layers):
            row, column = divmod(layer, columns)
            heads = int((~np.isnan(numbers[layer, 0])).sum())  # of this layer
            place = (left + column * (side + gap_across), top + row * (side + gap_down))
            sheet.image(*place, side, side, shade(numbers[layer, :heads, :heads], limit))
            sheet.write(place[0], place[1] - 0.05, f"layer {layer}", fontsize=7.5)
            for head in range(0, heads, max(1, -(-heads // 6))):
                middle = (head + 0.5) * side / heads
                sheet.write(place[0] + middle, place[1] + side + 0.04, str(head), fontsize=6.5, ha="center", va="top")
                sheet.write(place[0] - 0.04, place[1] + middle, str(head), fontsize=6.5, ha="right", va="center")
        sheet.write(0.1, 0.2, "How differently heads attend: head against head", fontsize=9, fontweight="bold")
        words = "Jensen–Shannon divergence, bits: 0 alike, 1 no key in common"
        sheet.ramp(left, 0.5, 1.8, (0.0, limit), words)
        return sheet.figure
