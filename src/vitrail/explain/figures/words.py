"""What words attend to: as lines from word to word, as one word's row over the text, and all layers and heads at once.

l layers, h heads, n queries, m keys
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.figures.alignment import LETTER, LONGEST, end_of_scale, longest, scale_words
from vitrail.explain.figures.sheet import Sheet, shade
from vitrail.rendering import BLUE, ORANGE, STRONG, count_columns, house_style, shorten

WIDEST = 7.4  # inches
FAINTEST = 0.02  # share of the scale below which a line could not be seen, and is not drawn
PERCENT = 0.55  # room of a number beside a word


def draw_words(
    weights: Float[Tensor, "n m"], queries: Sequence[str], keys: Sequence[str], *, query: int | None = None
) -> Figure:
    """Two columns, who looks at the left and what is looked at on the right; the opacity of a line is its weight.

    With `query`, a word's number, the lines of that word alone and its weights in numbers.
    """
    check_query(query, queries)
    shown = weights if query is None else weights[query : query + 1]
    limit = end_of_scale(shown)
    left_words, right_words = ([shorten(word, LONGEST) for word in words] for words in (queries, keys))
    count = max(len(left_words), len(right_words))
    pitch = 0.21 if count <= 40 else 0.165
    size = 9 if count <= 40 else 7.5
    left, top, gap = 0.15 + LETTER * longest(left_words), 0.72, 2.2
    right = left + gap
    with house_style():
        sheet = Sheet(max(right + LETTER * longest(right_words) + PERCENT + 0.1, 3.4), top + count * pitch + 0.12)
        sheet.ramp(0.1, 0.2, 1.8, (0.0, limit), "share of attention, each word’s lines sum to 1", labels=scale_words(limit))
        numbers = weights.double().cpu().numpy()
        chosen = range(len(left_words)) if query is None else [query]
        lines, colors = [], []
        for row in chosen:
            for column in np.flatnonzero(numbers[row] >= FAINTEST * limit).tolist():
                lines.append([(left + 0.05, middle(top, pitch, row)), (right - 0.05, middle(top, pitch, column))])
                colors.append(to_rgba(BLUE, min(1.0, float(numbers[row, column]) / limit)))
        sheet.page.add_collection(LineCollection(lines, colors=colors, linewidths=1.6, capstyle="round"), autolim=False)
        for row, word in enumerate(left_words):
            strong = {"fontweight": "bold", "color": STRONG} if row == query else {}
            sheet.write(left, middle(top, pitch, row), word, ha="right", va="center", fontsize=size, **strong)
        for column, word in enumerate(right_words):
            sheet.write(right, middle(top, pitch, column), word, va="center", fontsize=size)
            if query is not None:
                share = f"{100 * numbers[query, column]:.0f} %"
                place = right + LETTER * longest(right_words) + PERCENT
                sheet.write(place, middle(top, pitch, column), share, ha="right", va="center", fontsize=size - 1.5)
        return sheet.figure


def draw_reading(
    weights: Float[Tensor, "n m"], keys: Sequence[str], *, query: int, queries: Sequence[str] | None = None
) -> Figure:
    """The text that is looked at, each word on a ground whose blue is the weight that one word gives it.

    That word has an orange frame where it is part of the text; else it stands before it (`queries`).
    """
    asking = keys if queries is None else queries
    check_query(query, asking)
    row = weights[query].double().cpu().numpy()
    limit = end_of_scale(weights[query : query + 1])
    pad, height, line = 0.05, 0.22, 0.31
    words = f"what “{shorten(asking[query], LONGEST)}” attends to: share of attention, all words sum to 1"
    places = flow([LETTER * count_columns(shorten(word, 2 * LONGEST)) + 2 * pad for word in keys], WIDEST - 0.2)
    with house_style():
        sheet = Sheet(
            max(WIDEST if places[-1][1] else 0.3 + max(x + width for x, _, width in places), 4.4),
            0.78 + line * (1 + places[-1][1]),
        )
        sheet.ramp(0.1, 0.2, 1.8, (0.0, limit), words, labels=scale_words(limit))
        for number, (x, row_number, width) in enumerate(places):
            corner = (0.1 + x, 0.66 + line * row_number)
            sheet.page.add_patch(
                Rectangle(corner, width, height, facecolor=to_rgba(BLUE, 0.85 * row[number] / limit), linewidth=0)
            )
            if queries is None and number == query:
                sheet.page.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=ORANGE, linewidth=1.4))
            sheet.write(
                corner[0] + width / 2,
                corner[1] + height / 2,
                shorten(keys[number], 2 * LONGEST),
                ha="center",
                va="center",
                color=STRONG,
            )
        return sheet.figure


def draw_word_heads(
    weights: Float[Tensor, "l h n m"],
    *,
    first: str = "who looks",
    second: str = "at what",
    chosen: tuple[int, int | None] | None = None,
) -> Figure:
    """A small heat map for each layer (row) and head (column): words that look down, words looked at across; one scale for all.

    `chosen`, a layer and perhaps a head, has an orange frame.
    """
    numbers = weights.double().cpu().numpy()
    layers, heads, tall, wide = numbers.shape
    gap, left, top = 0.1, 0.62, 0.8
    side = min(1.25, max(0.5, (WIDEST - left) / heads - gap))
    across, down = (side, side * tall / wide) if wide >= tall else (side * wide / tall, side)
    across, down = max(across, 0.3), max(down, 0.3)
    limit = end_of_scale(weights)
    with house_style():
        sheet = Sheet(max(left + heads * (across + gap) + 0.1, 4.4), top + layers * (down + gap) + 0.1)
        sheet.ramp(
            0.1, 0.2, 1.8, (0.0, limit), f"share of attention; down: {first}, across: {second}", labels=scale_words(limit)
        )
        for head in range(heads):
            sheet.write(left + head * (across + gap) + across / 2, top - 0.06, f"head {head}", ha="center", fontsize=7.5)
        for layer in range(layers):
            place = top + layer * (down + gap)
            sheet.write(left - 0.08, place + down / 2, f"layer {layer}", ha="right", va="center", fontsize=7.5)
            for head in range(heads):
                at = left + head * (across + gap)
                sheet.image(at, place, across, down, shade(numbers[layer, head], limit))
                if chosen is not None and chosen[0] == layer and chosen[1] in (None, head):
                    sheet.page.add_patch(
                        Rectangle((at, place), across, down, fill=False, edgecolor=ORANGE, linewidth=1.6, clip_on=False)
                    )
        return sheet.figure


def middle(top: float, pitch: float, row: int) -> float:
    return top + (row + 0.5) * pitch


def flow(widths: Sequence[float], room: float) -> list[tuple[float, int, float]]:
    """(left, line, width) of boxes one after the other in lines of at most `room`."""
    places, x, line = [], 0.0, 0
    for width in widths:
        if x and x + width > room:
            x, line = 0.0, line + 1
        places.append((x, line, width))
        x += width + 0.05
    return places


def check_query(query: int | None, words: Sequence[str]) -> None:
    if query is not None and not 0 <= query < len(words):
        raise VitrailError(f"word {query} does not exist: the sentence has {len(words)}, 0 to {len(words) - 1}")
