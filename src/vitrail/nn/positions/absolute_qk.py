"""Absolute positions that decide where to look and not what is read.

b batch, n queries, m keys, w width, u width of the keys' source
"""

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.nn.positions.added import AddedPosition
from vitrail.nn.positions.position import Position
from vitrail.scope import Scope
from vitrail.tokens import Places


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
