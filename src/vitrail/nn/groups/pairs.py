"""Pairs of tokens of a group as one of them sees the other: which of the relative positions a pair has.

A query stands at (p, h), a key at (q, k): p, q cells of the grid, h, k elements. Its relative position is (h^-1·(q - p), h^-1·k): the only
thing that stays the same when both are moved by the same element, so that whatever is learned about it is shared as the group acts.
For lifting, keys have no element, and the relative position is h^-1·(q - p) alone.

g elements, n queries' cells, m keys' cells, u distinct offsets, k elements of the keys (g, or 1 for lifting)
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.nn.groups.group import PlaneGroup
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
