"""From windows back to the image: what a layer that attends within windows reads, in the image's own cells.

b batch, bw windows of the batch, h heads, n queries and m keys of a window, gh gw grid of the image, c its cells

A layer's weights are kept window by window, n m numbers each; the c c numbers of all pairs, most of them 0, are only made when asked for.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.nn.functional.windows import window_cells
from vitrail.tokens import Windows


def window_read(weights: Float[Tensor, "bw n m"], windows: Windows, cell: tuple[int, int]) -> Float[Tensor, "b gh gw"]:
    """What the cell (row, column) reads of each cell: 0 outside of its window. The sum is 1 less what goes to padding."""
    window, place = find_place(windows, cell)
    cells = window_cells(windows, weights.device)
    rows = weights.view(-1, len(cells), *weights.shape[1:])[:, window, place]  # b m
    return scatter(rows, cells[window], windows)


def window_received(weights: Float[Tensor, "bw n m"], windows: Windows) -> Float[Tensor, "b gh gw"]:
    """How much of each cell is read, mean over all cells that ask; what padding reads does not count."""
    cells = window_cells(windows, weights.device)  # w n
    real = (cells >= 0).to(weights.dtype)
    shares = weights.view(-1, *cells.shape, weights.shape[2]) * real[..., None]
    return scatter(shares.sum(2).flatten(1) / real.sum(), cells.flatten(), windows)


def image_weights(
    weights: Float[Tensor, "bw h n m"], windows: Windows, *, grid: tuple[int, int] | None = None
) -> Float[Tensor, "b h c c"]:
    """The weights between all cells of the image, or of a coarser `grid`: of the queries in a cell of it the mean, of its keys the sum.

    Rows sum to 1 less what goes to padding. All pairs of a large grid are many: ask `window_read` for one query's, or for a coarser grid.
    """
    rows, columns = windows.grid
    grid = windows.grid if grid is None else grid
    cells = window_cells(windows, weights.device)
    row, column = cells // columns * grid[0] // rows, cells % columns * grid[1] // columns
    count, real = math.prod(grid), cells >= 0
    coarse = (row * grid[1] + column).masked_fill(~real, count)  # what is padding goes to a cell that is cut off
    size = count + 1
    pairs = (coarse[:, :, None] * size + coarse[:, None]).flatten()  # (w n m)
    by_head = weights.view(-1, len(cells), *weights.shape[1:]).transpose(1, 2).flatten(2)  # b h (w n m)
    whole = by_head.new_zeros(*by_head.shape[:2], size * size).index_add_(2, pairs, by_head)
    asking = torch.bincount(coarse.flatten(), minlength=size)[:count].to(whole.dtype)
    return whole.view(*whole.shape[:2], size, size)[:, :, :count, :count] / asking.clamp(min=1)[:, None]


def find_place(windows: Windows, cell: tuple[int, int]) -> tuple[int, int]:
    """The window that a cell (row, column) stands in, and where in it."""
    (rows, columns), (row, column) = windows.grid, cell
    if not (0 <= row < rows and 0 <= column < columns):
        raise VitrailError(f"the query ({row}, {column}) is not on the grid of {rows} rows and {columns} columns")
    [found] = (window_cells(windows) == row * columns + column).nonzero().tolist()
    return found[0], found[1]


def scatter(shares: Float[Tensor, "b n"], cells: Int[Tensor, "n"], windows: Windows) -> Float[Tensor, "b gh gw"]:
    """Numbers about places of windows, on the grid; those of padding are left out."""
    real = cells >= 0
    found = shares.new_zeros(len(shares), math.prod(windows.grid))
    found[:, cells[real]] = shares[:, real]
    return found.view(-1, *windows.grid)
