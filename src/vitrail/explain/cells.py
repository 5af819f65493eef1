"""From tokens to cells of the image, and from pixels to cells.

b batch, h heads, n tokens, m tokens before any merging, h w image, gh gw grid
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.tokens import Grid, Places, Tokens


def spatial(grid: Grid) -> tuple[int, int]:
    """Rows and columns of a grid; what stands before them, such as the elements of a group, is about the same cells."""
    if len(grid) < 2:
        raise VitrailError(f"the grid {grid} has no two axes to draw a map on")
    return grid[-2], grid[-1]


def features_grid(features: Any) -> tuple[int, int]:
    """Rows and columns of what a model's head reads: tokens, or the last of its maps."""
    if isinstance(features, Tokens):
        return spatial(features.grid)
    rows, columns = features[-1].shape[2:]
    return rows, columns


def to_grid(shares: Float[Tensor, "b n"], places: Places) -> Float[Tensor, "b gh gw"]:
    """What is about each cell: prefix tokens left out, the sum over all elements of a group; 0 where no token stands. What is about a merged
    token is shared evenly by the cells it is made of."""
    cells = spread(shares, places)[:, places.prefix :]
    if places.index is not None:
        cells = cells.new_zeros(len(cells), math.prod(places.grid)).scatter_add(
            1, places.index.long().expand(cells.shape), cells
        )
    return cells.reshape(len(cells), -1, *spatial(places.grid)).sum(1)


def spread(shares: Float[Tensor, "b n"], places: Places) -> Float[Tensor, "b m"]:
    """Numbers about tokens as numbers about those that came in: each an even share of what its token has; sums stay."""
    if not places.merges:
        return shares
    source = places.source()  # b c
    counts = shares.new_zeros(len(source), shares.shape[1] - places.prefix).scatter_add(
        1, source, torch.ones_like(source).to(shares)
    )
    first, cells = shares[:, : places.prefix], shares[:, places.prefix :] / counts
    return torch.cat([first, cells.gather(1, source)], dim=1)


def spread_weights(weights: Float[Tensor, "b h n n"], places: Places) -> Float[Tensor, "b h m m"]:
    """Attention among tokens as attention among those that came in: each asks as its token does, and has its share of what that is given."""
    if not places.merges:
        return weights
    source, prefix = places.source(), places.prefix
    first = torch.arange(prefix, device=source.device).expand(len(source), -1)
    rows = torch.cat([first, prefix + source], dim=1)  # b m
    heads, tokens = weights.shape[1:3]
    every = weights.gather(2, rows[:, None, :, None].expand(-1, heads, -1, tokens))  # b h m n
    counts = weights.new_zeros(len(source), tokens).scatter_add(1, rows, torch.ones_like(rows).to(weights))
    shared = every / counts[:, None, None]
    return shared.gather(3, rows[:, None, None].expand(-1, heads, rows.shape[1], -1))


def cell_tokens(cell: tuple[int, int], places: Places) -> list[int]:
    """The tokens of a cell (row, column), one for each element of a group."""
    (rows, columns), (row, column) = spatial(places.grid), cell
    if not (0 <= row < rows and 0 <= column < columns):
        raise VitrailError(f"the query ({row}, {column}) is not on the grid of {rows} rows and {columns} columns")
    if places.index is not None:
        raise VitrailError("a query cell is looked for among all cells, and some of these tokens were dropped")
    if places.merges:
        raise VitrailError("a query cell must be a token of its own, and this layer reads merged ones: rebuild(model, merge=0)")
    elements = math.prod(places.grid[:-2])
    return [places.prefix + (element * rows + row) * columns + column for element in range(elements)]


def pixel_cells(pixels: int, cells: int, device: torch.device | None = None) -> Int[Tensor, "{pixels}"]:
    """The cell of each pixel along one axis: pixel i is in floor(i · cells / pixels)."""
    return torch.arange(pixels, device=device) * cells // pixels


def sum_in_cells(values: Float[Tensor, "b h w"], grid: tuple[int, int]) -> Float[Tensor, "b {grid[0]} {grid[1]}"]:
    """The sum over the pixels of each cell; every pixel is in one."""
    rows, columns = (
        F.one_hot(pixel_cells(pixels, cells, values.device), cells).to(values.dtype)
        for pixels, cells in zip(values.shape[1:], grid, strict=True)
    )  # h gh, w gw
    return rows.T @ values @ columns
