"""A learned encoding of relative positions on a group, shared as the group acts; and which relative position a pair of tokens has.

A query stands at (p, h), a key at (q, k): p, q cells of the grid, h, k elements. Its relative position is (h^-1·(q - p), h^-1·k): the only
thing that stays the same when both are moved by the same element, so that whatever is learned about it is shared as the group acts.
For lifting, keys have no element, and the relative position is h^-1·(q - p) alone.

b batch, t heads, g elements, n queries or their cells, m keys or their cells, d key width, u distinct offsets, k elements of the keys (g, or 1 for lifting),
f frequencies
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.groups.group import PlaneGroup
from vitrail.nn.positions.position import Position
from vitrail.scope import Scope
from vitrail.tokens import Grid


class Pairs(NamedTuple):
    """The distinct relative offsets, and for each query and key the row of its relative position: offset · k + element."""

    offsets: Float[Tensor, "u 2"]
    rows: Int[Tensor, "gn km"]


def relative_positions(group: PlaneGroup, queries: Grid, keys: Grid, *, margin: int = 0, lifting: bool = False) -> Pairs:
    """Of every query in a grid of cells to every key in another, whose first cell stands `margin` above and left of theirs."""
    offsets, rows = _tables(group, queries, keys, margin, lifting)
    return Pairs(torch.from_numpy(offsets), torch.from_numpy(rows))


# Arrays are kept, not tensors: one made in inference mode, or while a model is exported, would spoil every later call.
@lru_cache(maxsize=64)
def _tables(
    group: PlaneGroup, queries: Grid, keys: Grid, margin: int, lifting: bool
) -> tuple[Float[np.ndarray, "u 2"], Int[np.ndarray, "gn km"]]:
    apart = (_cells(keys) - margin)[None] - _cells(queries)[:, None]  # n m 2
    distinct, which = np.unique(apart.reshape(-1, 2), axis=0, return_inverse=True)
    seen = group.act_on_offsets(distinct)  # g distinct 2
    offsets, row = np.unique(seen.reshape(-1, 2), axis=0, return_inverse=True)
    row = row.reshape(seen.shape[:2])[:, which.reshape(apart.shape[:2])]  # g n m
    elements = np.zeros((group.order, 1), dtype=np.int64) if lifting else group.relative()  # g k
    rows = row[:, :, None, :] * elements.shape[1] + elements[:, None, :, None]  # g n k m
    return offsets, rows.reshape(group.order * row.shape[1], -1)


def _cells(grid: Grid) -> Float[np.ndarray, "n 2"]:
    rows, columns = np.meshgrid(*(np.arange(side, dtype=np.float64) for side in grid), indexing="ij")
    return np.stack([rows, columns], axis=-1).reshape(-1, 2)


class GroupRelative(Position):
    """(q + r)·ρ(h^-1·(x_j - x_i), h^-1·k) / sqrt(d), added to the logits of query (i, h) and key (j, k).

    [Romero+ 2021, eq. 16 and 18] have the encoding; which relative position it reads is that of [Hutchinson+ 2021, LieTransformer,
    section 3.2] and [Xu+ 2023], because theirs is not equivariant in every case. r is one learned vector a head, with which a head
    looks somewhere whatever it sees [Dai+ 2019, section 3.3]. ρ(o, e) = Σ_f v_f cos(w_f·o + φ_f,e) is a function of continuous
    offsets, since rotations finer than 90 degrees leave the grid.
    """

    attends = True
    biases = True

    def __init__(self, width: int, *, heads: int, group: PlaneGroup, lifting: bool = False, frequencies: int = 16) -> None:
        super().__init__()
        self.group, self.lifting = group, lifting
        # Named tables, as all that encodes a position is: weight decay leaves them alone.
        self.query_table = nn.Parameter(torch.randn(heads, width))
        self.frequency_table = nn.Parameter(torch.randn(2, frequencies))  # radians a cell: waves of about six cells
        self.phase_table = nn.Parameter(torch.rand(1 if lifting else group.order, frequencies) * 2 * math.pi)
        self.value_table = nn.Parameter(torch.randn(frequencies, width) * (2 / frequencies) ** 0.5)

    def encode(self, pairs: Pairs) -> Float[Tensor, "n m d"]:
        """ρ of every pair; computed once for each distinct relative position, so that equal ones are equal to the last bit."""
        offsets = pairs.offsets.to(self.frequency_table)
        angles = (offsets @ self.frequency_table)[:, None] + self.phase_table  # u k f
        rows = (angles.cos() @ self.value_table).flatten(0, 1)  # (u k) d
        return nn.functional.embedding(pairs.rows.to(rows.device), rows)

    def compare(self, q: Float[Tensor, "b t n d"], encoded: Float[Tensor, "n m d"]) -> Float[Tensor, "b t n m"]:
        """(q + r)·ρ / sqrt(d): one matrix product for each query place, over images and heads at once."""
        batch, heads, places, width = q.shape
        asked = (q + self.query_table[:, None]) * width**-0.5
        asked = asked.permute(2, 0, 1, 3).reshape(places, batch * heads, width)
        return (asked @ encoded.transpose(1, 2)).view(places, batch, heads, -1).permute(1, 2, 0, 3)

    def bias(self, q: Float[Tensor, "b t n d"], k: Float[Tensor, "b t m d"], scope: Scope) -> Float[Tensor, "b t n m"]:
        """For attention of all cells to all cells."""
        grid = self.grid(scope)
        return self.compare(q, self.encode(relative_positions(self.group, grid, grid, lifting=self.lifting)))

    def grid(self, scope: Scope) -> tuple[int, int]:
        """Rows and columns of the grid; one whose queries are not on this group is a mistake of the caller's."""
        if scope.queries is None or len(scope.queries.grid) != 3 or scope.queries.grid[0] != self.group.order:
            raise VitrailError(f"attention over {self.group.name} needs tokens on a grid ({self.group.order}, rows, columns)")
        _, height, width = scope.queries.grid
        self.group.check_grid(height, width, what="the grid")
        return height, width
