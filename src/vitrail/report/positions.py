"""What a model's positions have learned of the grid: how alike the rows are that it adds  [Dosovitskiy+ 2021, figure 7 middle].

gh gw grid, c cells, d width, k l rows and columns of maps shown
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Integer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from vitrail.nn.positions.added import AddedPosition
from vitrail.rendering import BLUE, INK, ORANGE, house_style, to_svg
from vitrail.report.page import Markup, drawing, section
from vitrail.tint import tint
from vitrail.tokens import Places

SHOWN = 7  # maps a side, as in the paper


def position_similarity(model: Any) -> Float[np.ndarray, "gh gw gh gw"] | str:
    """P[i, j, :, :] = the cosine between the added row of cell (i, j) and that of every cell, or in one line why there is none."""
    position = getattr(model, "position", None)
    position = getattr(position, "added", position)  # rows that come again in every layer
    if not isinstance(position, AddedPosition):
        kind = type(position).__name__ if position is not None and (position.attends or position.enters) else "none"
        return f"The position ({kind}) adds no rows to the tokens, so there are none to compare."
    grid = tuple(model.tokenizer.grid(model.image_size))
    if len(grid) != 2:
        return f"The grid {grid} has no two axes to draw maps on."
    with torch.inference_mode():
        rows = position.rows(Places(grid), next(model.parameters()).device)[0].double().cpu().numpy()  # c d
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(lengths > 0, lengths, 1)
    return np.clip(unit @ unit.T, -1, 1).reshape(*grid, *grid)


def spread(count: int, most: int) -> Integer[np.ndarray, "k"]:
    """At most `most` of 0..count-1, evenly spread, the first and the last among them."""
    return np.unique(np.round(np.linspace(0, count - 1, min(count, most))).astype(np.int64))


def draw_similarity(maps: Float[np.ndarray, "gh gw gh gw"]) -> Figure:
    """A grid of small maps, each the similarity of one cell to all: blue alike, orange opposite, nothing at 0."""
    rows, columns = spread(maps.shape[0], SHOWN), spread(maps.shape[1], SHOWN)
    height, width = maps.shape[2:]
    gap = max(1, round(0.12 * max(height, width)))
    page = np.zeros((len(rows) * (height + gap) - gap, len(columns) * (width + gap) - gap))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            top, left = i * (height + gap), j * (width + gap)
            page[top : top + height, left : left + width] = maps[row, column]
    side = 3.6 / max(page.shape)
    figure_width, figure_height = page.shape[1] * side + 0.62, page.shape[0] * side + 1.05
    with house_style():
        figure = Figure(figsize=(figure_width, figure_height))
        place = (
            0.5 / figure_width,
            0.45 / figure_height,
            page.shape[1] * side / figure_width,
            page.shape[0] * side / figure_height,
        )
        axes = figure.add_axes(place)
        axes.imshow(tint(np.abs(page), page >= 0), interpolation="none", aspect="auto")
        axes.set_xticks(np.arange(len(columns)) * (width + gap) + (width - 1) / 2, labels=[str(c + 1) for c in columns])
        axes.set_yticks(np.arange(len(rows)) * (height + gap) + (height - 1) / 2, labels=[str(r + 1) for r in rows])
        axes.set(xlabel="patch column", ylabel="patch row")
        axes.tick_params(length=0, pad=3)
        axes.spines[:].set_visible(False)
        for i in range(len(rows)):
            for j in range(len(columns)):
                corner = (j * (width + gap) - 0.5, i * (height + gap) - 0.5)
                axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=INK, alpha=0.35, linewidth=0.5))
        legend = figure.add_axes((place[0], 1 - 0.38 / figure_height, min(2.2, 3.6) / figure_width, 0.1 / figure_height))
        ramp = np.linspace(-1, 1, 65)[None, :]
        legend.imshow(tint(np.abs(ramp), ramp >= 0), interpolation="none", aspect="auto", extent=(-1, 1, 0, 1))
        legend.set_title("cosine similarity", fontsize=7.5, loc="left", pad=3)
        legend.set_xticks((-1, 0, 1), labels=["−1 opposite", "0", "1 the same"], fontsize=7)
        legend.set_yticks([])
        for words, alignment, color in zip(
            legend.get_xticklabels(), ("left", "center", "right"), (ORANGE, INK, BLUE), strict=True
        ):
            words.set(horizontalalignment=alignment, color=color)
        legend.tick_params(length=0, pad=2)
        legend.spines[:].set_visible(True)
        return figure


def show_positions(maps: Float[np.ndarray, "gh gw gh gw"] | str) -> Markup:
    if isinstance(maps, str):
        return section("Positions", note=maps)
    note = (
        "How alike the position of a patch is to that of every patch: each small map belongs to the patch at its place in the "
        "grid, and shows the whole grid. Maps that brighten at their own row and column mean that the model knows its neighbors."
    )
    rows, columns = maps.shape[:2]
    shown = f" Shown: {min(rows, SHOWN)}×{min(columns, SHOWN)} of {rows}×{columns} maps." if max(rows, columns) > SHOWN else ""
    return section(
        "Positions",
        drawing(to_svg(draw_similarity(maps)), "similarity of the position rows", kind="positions"),
        note=note + shown,
    )
