"""The alignment of a translation with its source as a heat map.

n words written, m words of the source
"""

import math
from collections.abc import Sequence

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from vitrail.explain.figures.sheet import Sheet, shade
from vitrail.rendering import count_columns, house_style, shorten

LETTER = 0.075  # inches, of a letter of 9 points
LONGEST = 16  # letters of a word that are shown
SLANT = 55  # degrees, of the words above


def draw_alignment(
    weights: Float[Tensor, "n m"], source: Sequence[str], target: Sequence[str], *, highest: float | None = None
) -> Figure:
    """The source's words above, the words written at the left; the bluer a cell, the more of the source's word was read.

    The scale begins at 0 and ends at the largest share there is, or at `highest`, which several figures may share.
    """
    numbers = weights.double().cpu().numpy()
    above, beside = ([shorten(word, LONGEST) for word in words] for words in (source, target))
    side = min(0.32, max(0.15, 6.4 / max(len(above), 1)))
    size = 9 if side >= 0.2 else 7
    letter = LETTER * size / 9
    left = 0.2 + letter * longest(beside)
    climb, lean = math.sin(math.radians(SLANT)), math.cos(math.radians(SLANT))
    top = 0.62 + letter * longest(above) * climb
    across, down = side * len(above), side * len(beside)
    limit = end_of_scale(weights) if highest is None else highest
    with house_style():
        sheet = Sheet(max(left + across + letter * longest(above) * lean + 0.1, 3.4), top + down + 0.1)
        sheet.ramp(0.1, 0.2, 1.8, (0.0, limit), "share of attention, each row sums to 1", labels=scale_words(limit))
        sheet.image(left, top, across, down, shade(numbers, limit))
        for place, word in enumerate(above):
            sheet.write(
                left + (place + 0.5) * side, top - 0.05, word,
                rotation=SLANT, rotation_mode="anchor", ha="left", va="baseline", fontsize=size,
            )  # fmt: skip
        for place, word in enumerate(beside):
            sheet.write(left - 0.07, top + (place + 0.5) * side, word, ha="right", va="center", fontsize=size)
        return sheet.figure


def longest(words: Sequence[str]) -> int:
    """In letters."""
    return max(map(count_columns, words), default=1)


def end_of_scale(weights: Float[Tensor, "*some n m"]) -> float:
    """The largest share that is drawn, a whole number of percent, but for rounding never less than that share."""
    return max(1, math.ceil(round(100 * float(weights.max()), 4))) / 100 if weights.numel() else 1.0


def scale_words(limit: float) -> tuple[str, str]:
    return "0", f"{100 * limit:.0f} %"
