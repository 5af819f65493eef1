"""The similarity of every place of the grid to every other  [Dosovitskiy+ 2021, fig. 7 middle].

gh gw grid, k rows or columns shown
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from jaxtyping import Float, Integer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from vitrail.explain.figures.sheet import Sheet, shade
from vitrail.explain.positions import Kind, Similarity
from vitrail.rendering import INK, house_style

SHOWN = 7  # maps a side, as in the paper
TITLES: Mapping[Kind, str] = MappingProxyType(
    {
        "cosine": "cosine similarity",
        "kernel": "product of constant query and key",
        "bias": "bias, logits",
        "query": "bias, logits",
    }
)


def spread(count: int, most: int) -> Integer[np.ndarray, "k"]:
    """At most `most` of 0..count-1, evenly spread, the first and the last among them."""
    return np.unique(np.round(np.linspace(0, count - 1, min(count, most))).astype(np.int64))


def draw_similarity(similarity: Similarity) -> Figure:
    """A grid of small maps, each the similarity of one cell to all: blue alike, orange opposite, nothing at 0."""
    maps, limit = similarity.maps.double().cpu().numpy(), similarity.limit
    rows, columns = spread(maps.shape[0], SHOWN), spread(maps.shape[1], SHOWN)
    height, width = maps.shape[2:]
    gap = max(1, round(0.12 * max(height, width)))
    page = np.zeros((len(rows) * (height + gap) - gap, len(columns) * (width + gap) - gap))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            top, left = i * (height + gap), j * (width + gap)
            page[top : top + height, left : left + width] = maps[row, column]
    side = 3.6 / max(page.shape)
    with house_style():
        sheet = Sheet(max(page.shape[1] * side + 0.62, 2.6), page.shape[0] * side + 1.05)
        axes = sheet.axes(0.5, 0.6, page.shape[1] * side, page.shape[0] * side)
        axes.imshow(shade(page, limit), interpolation="none", aspect="auto")
        axes.set_xticks(np.arange(len(columns)) * (width + gap) + (width - 1) / 2, labels=[str(c) for c in columns])
        axes.set_yticks(np.arange(len(rows)) * (height + gap) + (height - 1) / 2, labels=[str(r) for r in rows])
        axes.set(xlabel="patch column", ylabel="patch row")
        axes.tick_params(length=0, pad=3)
        axes.spines[:].set_visible(False)
        for i in range(len(rows)):
            for j in range(len(columns)):
                corner = (j * (width + gap) - 0.5, i * (height + gap) - 0.5)
                axes.add_patch(
                    Rectangle(corner, width, height, fill=False, edgecolor=INK, alpha=0.35, linewidth=0.5, clip_on=False)
                )
        ends = (-1.0, 0.0, 1.0) if similarity.kind in ("cosine", "kernel") else _ends(maps)
        labels = ("−1 opposite", "0", "1 the same") if similarity.kind == "cosine" else ()
        sheet.ramp(0.5, 0.22, 1.9, ends, TITLES[similarity.kind], labels=labels)
        return sheet.figure


def _ends(maps: Float[np.ndarray, "gh gw gh gw"]) -> tuple[float, ...]:
    """The lowest and the highest number, and 0, in order, each once; a scale has a length even where all is 0."""
    low, high = min(float(maps.min()), 0.0), max(float(maps.max()), 0.0)
    return tuple(sorted({low, 0.0, high})) if low < high else (0.0, 1.0)
