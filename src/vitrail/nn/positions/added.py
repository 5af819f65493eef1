"""Positions that are rows added to the tokens at the stem: x + P  [Dosovitskiy+ 2021, eq. 1].

b batch, n tokens, c cells, p prefix tokens, d width
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.positions.position import Position
from vitrail.tokens import Places, Tokens


class AddedPosition(Position):
    """Adds `rows(places)` to the cells and, where prefix tokens own rows, a learned row to each of those.

    Whether class and register tokens have rows of their own changes nothing but what they start from; ViT as published
    gives its class token one.
    """

    def __init__(self, width: int, *, prefix: int = 0) -> None:
        super().__init__()
        self.width = width
        self.prefix_table = nn.Parameter(torch.empty(prefix, width)) if prefix else None
        if self.prefix_table is not None:
            nn.init.trunc_normal_(self.prefix_table, std=0.02)

    def rows(self, places: Places, device: torch.device) -> Float[Tensor, "#b c d"]:
        """The row of each cell."""
        raise NotImplementedError

    def embed(self, tokens: Tokens) -> Tokens:
        return tokens._replace(x=tokens.x + self.all_rows(tokens.places, tokens.x.device).to(tokens.x.dtype))

    def all_rows(self, places: Places, device: torch.device) -> Float[Tensor, "#b n d"]:
        """The rows of the prefix tokens and of the cells, so that one addition places all tokens."""
        rows = self.rows(places, device)
        return torch.cat([self.prefix_rows(places.prefix, rows), rows], dim=1) if places.prefix else rows

    def prefix_rows(self, count: int, rows: Float[Tensor, "#b c d"]) -> Float[Tensor, "#b p d"]:
        """Rows of the prefix tokens: learned for the first ones where the table has them, zero for the rest."""
        owned = 0 if self.prefix_table is None else min(count, self.prefix_table.shape[0])
        zeros = rows.new_zeros(rows.shape[0], count - owned, self.width)
        if self.prefix_table is None or not owned:
            return zeros
        table = self.prefix_table[:owned].to(rows.dtype).expand(rows.shape[0], -1, -1)
        return table if owned == count else torch.cat([table, zeros], dim=1)
