"""How widely heads attend, and how differently from each other.

l layers, h heads
"""

import math

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
    limit = float(numbers.max(initial=0.0)) or 1.0
    side = min(1.3, max(0.8, 0.16 * heads))
    gap_across, gap_down, left, top = 0.3, 0.42, 0.36, 0.98
    columns = min(layers, int((WIDEST - left + gap_across) / (side + gap_across)))
    rows = -(-layers // columns)
    with house_style():
        sheet = Sheet(max(left + columns * (side + gap_across), 3.2), top + rows * (side + gap_down))
        for layer in range(layers):
            row, column = divmod(layer, columns)
            place = (left + column * (side + gap_across), top + row * (side + gap_down))
            axes = sheet.axes(*place, side, side)
            axes.imshow(shade(numbers[layer], limit), interpolation="none", aspect="auto")
            axes.set_title(f"layer {layer}", loc="left", fontsize=7.5, fontweight="normal", pad=3)
            shown = range(0, heads, max(1, -(-heads // 6)))
            axes.set_xticks(shown, labels=[str(head) for head in shown], fontsize=6.5)
            axes.set_yticks(shown, labels=[str(head) for head in shown], fontsize=6.5)
            axes.tick_params(length=0, pad=2)
            axes.spines[:].set(visible=True, alpha=0.35, linewidth=0.5)
        sheet.write(0.1, 0.2, "How differently heads attend: head against head", fontsize=9, fontweight="bold")
        sheet.ramp(
            left, 0.5, 1.8, 0.0, limit, "Jensen–Shannon divergence, bits (at most 1)", labels=("0 alike", f"{limit:.3g}")
        )
        return sheet.figure
