"""Positions again in every layer: the same rows, or parameters of their own for each layer.

b batch, n tokens, w width
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.positions.added import AddedPosition
from vitrail.nn.positions.position import Position
from vitrail.scope import Scope
from vitrail.tokens import Places


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


class LayersApart(Position):
    """Any scheme that acts in every layer, with parameters of its own for each: `layers[l]` for block l."""

    def __init__(self, layers: Sequence[Position]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.attends, self.enters = layers[0].attends, layers[0].enters
        self.biases, self.reads = layers[0].biases, layers[0].reads

    def of(self, layer: int) -> Position:
        found = self.layers[layer]
        assert isinstance(found, Position)
        return found

    def prepare(self, queries: Places, keys: Places, device: torch.device | None = None) -> tuple[Any, ...]:
        if self.of(0).prepares_parameters:
            return tuple(self.of(layer).prepare(queries, keys, device) for layer in range(len(self.layers)))
        return (self.of(0).prepare(queries, keys, device),) * len(self.layers)

    def at(self, scope: Scope, layer: int) -> Scope:
        arriving = None if scope.arriving is None else self.at(scope.arriving, layer)
        position = self.of(layer) if self.attends else None
        return scope._replace(position=position, prepared=scope.prepared[layer], arriving=arriving)

    def enter(self, x: Float[Tensor, "b n w"], layer: int, scope: Scope) -> Float[Tensor, "b n w"]:
        return self.of(layer).enter(x, layer, scope)
