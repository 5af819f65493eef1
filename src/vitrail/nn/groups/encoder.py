"""Blocks on a group with poolings between them.

b batch, n tokens, d width
"""

from collections.abc import Sequence

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from vitrail.nn.attention.carry import uses_carry, with_carry
from vitrail.nn.groups.pooling import GridPooling, halved, pool_grid
from vitrail.scope import Scope
from vitrail.tokens import Grid, Tokens


class GroupEncoder(nn.Module):
    """z_l = block_l(pool(z_{l-1})), then a last norm. `halvings[l]` says how many 2x2 poolings stand before block l."""

    def __init__(
        self, blocks: Sequence[nn.Module], *, halvings: Sequence[int], norm: nn.Module, pooling: GridPooling = "mean"
    ) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), norm
        self.halvings, self.pooling = tuple(halvings), pooling
        self.carries = uses_carry(self.blocks)
        self.checkpointing = False  # in training: keep only what goes into a block, and compute the rest again [Chen+ 2016]

    def grid(self, grid: Grid) -> Grid:
        """The grid behind the last block; refused where a pooling would not be exact."""
        for _ in range(sum(self.halvings)):
            grid = halved(grid)
        return grid

    def forward(self, tokens: Tokens) -> Tokens:
        again = self.checkpointing and self.training and torch.is_grad_enabled()
        scope = with_carry(Scope(queries=tokens.places, keys=tokens.places), self.carries)
        for block, halvings in zip(self.blocks, self.halvings, strict=True):
            for _ in range(halvings):
                tokens = pool_grid(tokens, self.pooling)
                scope = with_carry(Scope(queries=tokens.places, keys=tokens.places), self.carries)
            x = checkpoint(block, tokens.x, scope, use_reentrant=False) if again else block(tokens.x, scope)
            tokens = tokens._replace(x=x)
        return tokens._replace(x=self.norm(tokens.x))
