"""Pooling on the grid, which every element of a group commutes with.

b batch, n tokens, d width, g elements, h w grid
"""

from typing import Literal

from vitrail.errors import VitrailError
from vitrail.tokens import Grid, Tokens

GridPooling = Literal["mean", "max"]


def halved(grid: Grid) -> Grid:
    """The grid (elements, rows, columns) behind a 2x2 pooling. An odd side is refused: 2x2 cells cover it from one corner only."""
    if grid[1] % 2 or grid[2] % 2:
        raise VitrailError(
            f"2x2 pooling is exact only on even sides, got a grid of {grid[1]}x{grid[2]}; choose another image_size"
        )
    return (grid[0], grid[1] // 2, grid[2] // 2)


def pool_grid(tokens: Tokens, how: GridPooling = "mean") -> Tokens:
    """The mean or the largest value of each 2x2 cells, element by element: b (g h w) d -> b (g h/2 w/2) d."""
    g, h, w = halved(tokens.grid)
    cells = tokens.x.reshape(len(tokens.x), g, h, 2, w, 2, -1)
    pooled = cells.mean(dim=(3, 5)) if how == "mean" else cells.amax(dim=(3, 5))
    return tokens._replace(x=pooled.flatten(1, 3), grid=(g, h, w))


def mean_over_group(tokens: Tokens) -> Tokens:
    """The mean over the elements at each cell: what is left turns as the image does. b (g h w) d -> b (h w) d."""
    elements, rows, columns = tokens.grid
    cells = tokens.x.reshape(len(tokens.x), elements, rows * columns, -1)
    return tokens._replace(x=cells.mean(1), grid=(rows, columns))
