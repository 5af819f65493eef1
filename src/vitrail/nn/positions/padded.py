"""Positions of a padded batch of images of different shapes: each image's tokens stand on its own grid.

b batch, h heads, n queries, m keys, w u widths of what they are made from, d key width, e value width, g images of one shape

A scheme is asked about each shape by itself, and knows nothing of the others: so every scheme gives an image what it gives it alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.positions.position import Position
from vitrail.scope import KeyedPosition, Scope
from vitrail.tokens import Places


class Rows(NamedTuple):
    """Images of one shape in a padded batch: rows `start` to `stop`, of which the first `tokens` are no padding."""

    start: int
    stop: int
    tokens: int
    scope: Scope

    def of(self, x: Float[Tensor, "b *rest"], axes: Sequence[int]) -> Float[Tensor, "g *shorter"]:
        """Their rows, without the padding along `axes`."""
        part = x[self.start : self.stop]
        for axis in axes:
            part = part.narrow(axis, 0, self.tokens)
        return part


class PaddedPosition(Position, KeyedPosition):
    """Of a batch padded to its longest sequence. `shapes` are the batch's images, those of one shape together, with scopes of their own.

    What a scheme gives to tokens is padded with zeros, which nobody reads: the mask of the batch hides them.
    """

    def __init__(self, position: Position, shapes: Sequence[Rows]) -> None:
        super().__init__()
        self.position, self.shapes = position, tuple(shapes)
        self.attends, self.enters = position.attends, position.enters
        self.biases, self.reads = position.biases, position.reads

    def prepare(self, queries: Places, keys: Places, device: torch.device | None = None) -> None:
        """Done for each shape already."""

    def at(self, scope: Scope, layer: int) -> Scope:
        here = [rows._replace(scope=self.position.at(rows.scope, layer)) for rows in self.shapes]
        found = PaddedPosition(here[0].scope.position or self.position, here)  # type: ignore[arg-type]
        return scope._replace(position=found if self.attends else None, prepared=found)

    def enter(self, x: Float[Tensor, "b n w"], layer: int, scope: Scope) -> Float[Tensor, "b n w"]:
        here: PaddedPosition = scope.prepared
        parts = [self.position.enter(rows.of(x, [1]), layer, rows.scope) for rows in here.shapes]
        return pad_rows(parts, {1: x.shape[1]})

    def sources(
        self, x: Float[Tensor, "b n w"], y: Float[Tensor, "b m u"], scope: Scope
    ) -> tuple[Float[Tensor, "b n w"], Float[Tensor, "b m u"]]:
        parts = [(rows.of(x, [1]), rows.scope) for rows in self.shapes]
        found = [self.position.sources(part, part, here) for part, here in parts]
        asking, asked = (pad_rows([pair[side] for pair in found], {1: x.shape[1]}) for side in (0, 1))
        return asking, asked

    def project(self, key: nn.Linear, scope: Scope) -> Scope:
        if not isinstance(self.position, KeyedPosition):
            return scope
        here = [rows._replace(scope=self.position.project(key, rows.scope)) for rows in self.shapes]
        return scope._replace(position=PaddedPosition(self.position, here))

    def rotate(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope
    ) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h m d"]]:
        found = [self.position.rotate(rows.of(q, [2]), rows.of(k, [2]), rows.scope) for rows in self.shapes]
        turned, others = (pad_rows([pair[side] for pair in found], {2: q.shape[2]}) for side in (0, 1))
        return turned, others

    def bias(self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope) -> Float[Tensor, "b h n m"]:
        parts = [
            self.position.bias(rows.of(q, [2]), rows.of(k, [2]), rows.scope).expand(rows.stop - rows.start, q.shape[1], -1, -1)
            for rows in self.shapes
        ]
        return pad_rows(parts, {2: q.shape[2], 3: k.shape[2]})

    def read(self, weights: Float[Tensor, "b h n m"], scope: Scope) -> Float[Tensor, "b #h n e"]:
        parts = [self.position.read(rows.of(weights, [2, 3]), rows.scope) for rows in self.shapes]
        return pad_rows(parts, {2: weights.shape[2]})


def pad_rows(parts: Sequence[Float[Tensor, "..."]], sizes: dict[int, int]) -> Float[Tensor, "..."]:
    """All rows in one tensor, with zeros behind each part until its axes have these sizes."""
    longer = []
    for part in parts:
        room = [0] * (2 * part.ndim)
        for axis, size in sizes.items():
            room[2 * (part.ndim - 1 - axis) + 1] = size - part.shape[axis]
        longer.append(F.pad(part, room))
    return torch.cat(longer)
