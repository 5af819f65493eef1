"""What a position scheme is: the places where it may act, each a function of coordinates.

b batch, h heads, n queries, m keys, w u widths of what they are made from, d key width, e value width
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.scope import Scope
from vitrail.tokens import Grid, Places, Tokens


class Position(nn.Module):
    """No position at all: the scheme "none", and the neutral answer of every place for the schemes built on it.

    Without a position a transformer is blind to order: its encoder commutes with every permutation of the tokens.
    """

    attends: bool = False  # acts inside attention: `sources`, `rotate`, `bias` or `read` does something
    enters: bool = False  # acts between blocks: `enter` does something
    biases: bool = False
    reads: bool = False
    prepares_parameters: bool = False  # whether `prepare` reads parameters; else layers that own theirs share what it gives

    def embed(self, tokens: Tokens) -> Tokens:
        """Added to the tokens, before the first block."""
        return tokens

    def prepare(self, queries: Places, keys: Places, device: torch.device | None = None) -> Any:
        """Computed once a forward pass and kept in `scope.prepared` for all layers."""
        return None

    def at(self, scope: Scope, layer: int) -> Scope:
        """The scope as block `layer` sees it; where each layer owns parameters, with that layer's position."""
        return scope

    def enter(self, x: Float[Tensor, "b n w"], layer: int, scope: Scope) -> Float[Tensor, "b n w"]:
        """What block `layer` reads instead of x. Called where `enters` is True."""
        return x

    def sources(
        self, x: Float[Tensor, "b n w"], y: Float[Tensor, "b m u"], scope: Scope
    ) -> tuple[Float[Tensor, "b n w"], Float[Tensor, "b m u"]]:
        """What queries and keys are made from; values are made from y itself."""
        return x, y

    def rotate(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope
    ) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h m d"]]:
        """Queries and keys turned by where they stand (rotary)."""
        return q, k

    def bias(self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope) -> Float[Tensor, "#b #h n m"]:
        """Added to the logits (ALiBi, a table of offsets, Shaw's key term); finite. Called where `biases` is True."""
        raise NotImplementedError(f"{type(self).__name__} declares a bias and has none")

    def read(self, weights: Float[Tensor, "b h n m"], scope: Scope) -> Float[Tensor, "b #h n e"]:
        """Added to what is read (Shaw's value term). Called where `reads` is True."""
        raise NotImplementedError(f"{type(self).__name__} declares a read term and has none")


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
        return scope._replace(position=self.of(layer) if self.attends else None, prepared=scope.prepared[layer])

    def enter(self, x: Float[Tensor, "b n w"], layer: int, scope: Scope) -> Float[Tensor, "b n w"]:
        return self.of(layer).enter(x, layer, scope)


def check_axes(grid: Grid, axes: int) -> None:
    """A table for two axes says nothing of a third."""
    if len(grid) != axes:
        raise VitrailError(f"this position was built for {axes} axes, the grid {grid} has {len(grid)}")
