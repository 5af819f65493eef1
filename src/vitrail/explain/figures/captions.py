"""Captions word by word: an image, then for each word the image under the model's attention.

t words, gh gw grid, y x image, c channels
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from vitrail.explain.figures.overlay import end_words, fit_between, overlay, scale, scale_end, times_even
from vitrail.explain.figures.sheet import Sheet
from vitrail.rendering import ORANGE, STRONG, house_style, shorten

COLUMNS = 9  # cells of a line, the image's own among them
CELL, GAP, LEFT, WORD, HEADING = 0.92, 0.07, 0.08, 0.17, 0.19  # inches
DETAIL = 160  # pixels of a small image's longer side at most


@dataclass(frozen=True, kw_only=True)
class CaptionRow:
    """An image and what was said of it. `reference`: what it should have been, where that is something else."""

    image: UInt8[np.ndarray, "y x c"]
    caption: str
    words: Sequence[str]
    maps: Float[Tensor, "t gh gw"] | Float[np.ndarray, "t gh gw"]
    reference: str = ""

    @property
    def lines(self) -> int:
        """Of cells; the image stands before the first."""
        return max(1, -(-len(self.words) // (COLUMNS - 1)))


def draw_captions(rows: Sequence[CaptionRow], *, highest: float | None = None) -> Figure:
    """All maps are on one scale, in times an even share, which `highest` ends."""
    shares = [times_even(row.maps) for row in rows]
    everything = np.concatenate([maps.ravel() for maps in shares]) if rows else np.ones(1)
    highest = scale_end(everything) if highest is None else highest
    cells = [cell_size(row.image) for row in rows]
    heads = [heading(row) for row in rows]
    tall = [
        len(lines) * HEADING + row.lines * (cell[1] + WORD + GAP) + 0.14
        for row, cell, lines in zip(rows, cells, heads, strict=True)
    ]
    top = 0.62
    with house_style():
        sheet = Sheet(2 * LEFT + COLUMNS * (CELL + GAP) - GAP, top + sum(tall))
        sheet.ramp(LEFT, 0.2, 1.8, (0.0, highest), "attention, times an even share",
                   labels=("0", end_words(highest, everything)), pixels=scale(highest))  # fmt: skip
        for row, maps, (across, down), lines, height in zip(rows, shares, cells, heads, tall, strict=True):
            for number, (line, color) in enumerate(lines):
                sheet.write(LEFT, top + number * HEADING + 0.11, line, fontsize=8.5, color=color)
            first = top + len(lines) * HEADING
            small = fit_between(row.image, smallest=DETAIL // 2, largest=DETAIL)
            sheet.image(LEFT, first, across, down, small.repeat(3, axis=2) if small.shape[2] == 1 else small)
            for number, word in enumerate(row.words):
                down_by, column = divmod(number, COLUMNS - 1)
                left, above = LEFT + (column + 1) * (CELL + GAP), first + down_by * (down + WORD + GAP)
                pixels = overlay(row.image, maps[number], highest, smallest=DETAIL // 2, largest=DETAIL)
                sheet.image(left, above, across, down, pixels)
                sheet.write(left + across / 2, above + down + 0.04, shorten(word, 14), ha="center", va="top", fontsize=7.5)
            top += height
        return sheet.figure


def cell_size(image: UInt8[np.ndarray, "y x c"]) -> tuple[float, float]:
    """Width and height of a small image in inches."""
    tall, wide = image.shape[:2]
    return (CELL, CELL * tall / wide) if wide >= tall else (CELL * wide / tall, CELL)


def heading(row: CaptionRow) -> list[tuple[str, str]]:
    """Lines of text above a row, with their colors: what was said, and what it should have been."""
    said = textwrap.wrap(row.caption, 105) or ["(nothing)"]
    should = textwrap.wrap(f"instead of: {row.reference}", 105) if row.reference else []
    return [*((line, STRONG) for line in said), *((line, ORANGE) for line in should)]
