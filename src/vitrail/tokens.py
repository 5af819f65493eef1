"""Tokens: what flows through every model, and Places: where its tokens stand.

b batch, n tokens (prefix included), c cells among them, d width, a axes of the grid
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Grid = tuple[int, ...]


class Places(NamedTuple):
    """Where tokens stand: all that a position or a kernel may know of them beside their content."""

    grid: Grid
    prefix: int = 0  # class, distillation or register tokens, which stand first and have no cell
    index: Int[Tensor, "#b c"] | None = None  # type: ignore[assignment]  # the cell of each token behind the prefix; None: all, in raster order

    def coordinates(self, device: torch.device | None = None) -> Int[Tensor, "#b c a"]:
        """(row, column), or (time, row, column), of each token behind the prefix."""
        if len(self.grid) == 1:  # a line: a cell's number is its coordinate
            return (torch.arange(self.grid[0], device=device)[None] if self.index is None else self.index)[..., None]
        axes = [torch.arange(size, device=device) for size in self.grid]
        cells = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)  # cells a
        return cells[None] if self.index is None else cells[self.index]

    def line(self) -> "Places":
        """The same tokens on one axis: a cell's coordinate is its number in raster order."""
        return self._replace(grid=(math.prod(self.grid),))


class Windows(NamedTuple):
    """How a grid is cut into windows: padded to whole ones, shifted cyclically by `shift`, cut."""

    grid: tuple[int, int]
    window: tuple[int, int]
    shift: tuple[int, int] = (0, 0)


class Tokens(NamedTuple):
    """A batch of token sequences on a grid of any number of axes."""

    x: Float[Tensor, "b n d"]
    grid: Grid
    prefix: int = 0
    index: Int[Tensor, "#b c"] | None = None  # type: ignore[assignment]  # shadows tuple.index, knowingly
    mask: Bool[Tensor, "b n"] | None = None  # True: a real token, False: padding

    @property
    def places(self) -> Places:
        return Places(self.grid, self.prefix, self.index)

    @property
    def cells(self) -> Float[Tensor, "b c d"]:
        """The tokens behind the prefix."""
        return self.x[:, self.prefix :]
