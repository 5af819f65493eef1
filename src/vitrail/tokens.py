"""Tokens: what flows through every model, and Places: where its tokens stand.

b batch, n tokens (prefix included), c cells among them, d width, a axes of the grid, k r of a step of merging: kept, gone
"""

import itertools
import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Grid = tuple[int, ...]


class Merge(NamedTuple):
    """One step of token merging: which of every second token, the first, third, ... behind the prefix, went into which of the others.

    What is left stands so: the prefix, those of the first that stayed, then all of the others.
    """

    kept: Int[Tensor, "b k"]  # of the first, third, ...: those that stayed, in their order
    gone: Int[Tensor, "b r"]  # those that did not
    into: Int[Tensor, "b r"]  # of the second, fourth, ...: where each of them went

    def places(self, count: int) -> Int[Tensor, "b c"]:
        """Where each of the `count` tokens behind the prefix stands now."""
        (batch, left), device = self.kept.shape, self.kept.device
        others = torch.arange(count // 2, device=device).expand(batch, -1)
        before = torch.cat([2 * self.kept, 2 * self.gone, 2 * others + 1], dim=1)
        now = torch.cat([torch.arange(left, device=device).expand(batch, -1), left + self.into, left + others], dim=1)
        return torch.zeros_like(before).scatter(1, before, now)


class Places(NamedTuple):
    """Where tokens stand: all that a position or a kernel may know of them beside their content."""

    grid: Grid
    prefix: int = 0  # class, distillation or register tokens, which stand first and have no cell
    index: Int[Tensor, "#b c"] | None = None  # type: ignore[assignment]  # the cell of each token behind the prefix; None: all, in raster order
    merges: tuple[Merge, ...] = ()  # what became of those tokens since, step by step

    def source(self) -> Int[Tensor, "b c"]:
        """The token, counted behind the prefix, that each token which came in is part of after all merging."""
        if not self.merges:
            raise ValueError("nothing was merged: every token is its own source")
        count = math.prod(self.grid) if self.index is None else self.index.shape[1]
        found = self.merges[0].places(count)
        for before, merge in itertools.pairwise(self.merges):
            count -= before.gone.shape[1]
            found = merge.places(count).gather(1, found)
        return found

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
    sizes: Float[Tensor, "b n"] | None = None  # how many tokens that came in each one is the mean of; None: one each
    merges: tuple[Merge, ...] = ()  # what became of the tokens whose cells are `index`

    @property
    def places(self) -> Places:
        return Places(self.grid, self.prefix, self.index, self.merges)

    @property
    def cells(self) -> Float[Tensor, "b c d"]:
        """The tokens behind the prefix."""
        return self.x[:, self.prefix :]
