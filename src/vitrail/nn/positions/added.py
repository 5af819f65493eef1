"""Positions that are added rows: to the tokens at the stem, in front of every block, or to what queries and keys are made from.

b batch, n tokens or queries, m keys, c cells, p prefix tokens, d w width, u width of the keys' source
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.positions.position import Position
from vitrail.scope import Scope
from vitrail.tokens import Places, Tokens


class AddedPosition(Position):
    """x + P  [Dosovitskiy+ 2021, eq. 1]: adds `rows(places)` to the cells and, where prefix tokens own rows, a learned row to each of those.

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


class EveryLayer(Position):
    """block_l(x + P): rows that are added in front of every block instead of once  [Dosovitskiy+ 2021, D.4 (2), (3)]."""

    enters = True
    prepares_parameters = True

    def __init__(self, added: AddedPosition) -> None:
        super().__init__()
        self.added = added

    def prepare(self, queries: Places, keys: Places, device: torch.device | None = None) -> Float[Tensor, "#b n w"]:
        return self.added.all_rows(queries, device or torch.get_default_device())

    def enter(self, x: Float[Tensor, "b n w"], layer: int, scope: Scope) -> Float[Tensor, "b n w"]:
        return x + scope.prepared.to(x.dtype)


class GivenQK(Position):
    """softmax(((x + P) W_Q) ((y + R) W_K)^T / sqrt(d)) y W_V, with rows P and R that somebody else put into `scope.prepared`."""

    attends = True

    def sources(
        self, x: Float[Tensor, "b n w"], y: Float[Tensor, "b m u"], scope: Scope
    ) -> tuple[Float[Tensor, "b n w"], Float[Tensor, "b m u"]]:
        ours, theirs = scope.prepared
        placed = x + ours.to(x.dtype)
        return placed, placed if y is x and theirs is ours else y + theirs.to(y.dtype)


class AbsoluteQK(GivenQK):
    """softmax(((x + P) W_Q) ((x + P) W_K)^T / sqrt(d)) x W_V, in every layer  [Romero and Cordonnier 2021; Carion+ 2020, A.4].

    `added` has the rows P, for prefix tokens too; what becomes of an unseen grid is its own matter.
    """

    prepares_parameters = True

    def __init__(self, added: AddedPosition) -> None:
        super().__init__()
        self.added = added

    def prepare(
        self, queries: Places, keys: Places, device: torch.device | None = None
    ) -> tuple[Float[Tensor, "#b n w"], Float[Tensor, "#b m w"]]:
        device = device or torch.get_default_device()
        ours = self.added.all_rows(queries, device)
        return ours, ours if keys is queries else self.added.all_rows(keys, device)
