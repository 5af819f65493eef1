"""The encoder on a group: blocks with poolings between them, which every element of the group commutes with.

b batch, n tokens, d width, g elements, h w grid
"""

from collections.abc import Collection, Sequence
from typing import Literal

from torch import nn

from vitrail.errors import VitrailError
from vitrail.nn.blocks.stack import Stack
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
    cells = tokens.x.reshape(tokens.x.shape[0], g, h, 2, w, 2, -1)
    pooled = cells.mean(dim=(3, 5)) if how == "mean" else cells.amax(dim=(3, 5))
    return tokens._replace(x=pooled.flatten(1, 3), grid=(g, h, w))


def mean_over_group(tokens: Tokens) -> Tokens:
    """The mean over the elements at each cell: what is left turns as the image does. b (g h w) d -> b (h w) d."""
    elements, rows, columns = tokens.grid
    cells = tokens.x.reshape(tokens.x.shape[0], elements, rows * columns, -1)
    return tokens._replace(x=cells.mean(1), grid=(rows, columns))


class GroupEncoder(Stack):
    """z_l = block_l(pool(z_{l-1})), then a last norm. `halvings[l]` says how many 2x2 poolings stand before block l."""

    def __init__(
        self, blocks: Sequence[nn.Module], *, halvings: Sequence[int], norm: nn.Module, pooling: GridPooling = "mean"
    ) -> None:
        super().__init__(blocks)
        self.norm = norm
        self.halvings, self.pooling = tuple(halvings), pooling

    def grid(self, grid: Grid) -> Grid:
        """The grid behind the last block; refused where a pooling would not be exact."""
        for _ in range(sum(self.halvings)):
            grid = halved(grid)
        return grid

    def prune(self, last: int) -> None:
        """Leave out the blocks behind `last`, and the last norm."""
        self.blocks, self.halvings, self.norm = self.blocks[: last + 1], self.halvings[: last + 1], nn.Identity()

    def forward(self, tokens: Tokens) -> Tokens:
        return self.walk(tokens)[0]

    def walk(self, tokens: Tokens, *, keep: Collection[int] = ()) -> tuple[Tokens, list[Tokens]]:
        """The last tokens, and those behind each block whose number is in `keep`, normed as the last are."""
        kept: list[Tokens] = []
        scope = self.open_scope(tokens)
        for number, (block, halvings) in enumerate(zip(self.blocks, self.halvings, strict=True)):
            for _ in range(halvings):
                tokens = pool_grid(tokens, self.pooling)
                scope = self.open_scope(tokens)
            tokens = tokens._replace(x=self.run(block, tokens.x, scope))
            if number in keep:
                kept.append(tokens._replace(x=self.norm(tokens.x)))
        return tokens._replace(x=self.norm(tokens.x)), kept
