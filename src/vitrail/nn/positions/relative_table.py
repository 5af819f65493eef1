"""Swin's relative position bias, a number for each offset and head: learned one by one, or given by a small network that reads the offset.

b batch, h heads, n queries, m keys, d key width, r offsets, a axes
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.nn.functional.maps import Smoothness, resize_table
from vitrail.nn.functional.offsets import PREFIX_ROWS, offset_rows
from vitrail.nn.positions.position import Position, check_axes
from vitrail.scope import Scope
from vitrail.tokens import Grid, Places

REACH = 8.0  # what the farthest offset becomes before its logarithm, where it is continuous
LARGEST = 16.0  # that bias is in (0, 16)


class RelativeTable(Position):
    """softmax(q k^T / sqrt(d) + B), B_ij = table[x_i - x_j]  [Liu+ 2021, Swin, eq. 4], on any number of axes.

    The table has (2h - 1)(2w - 1) rows. A grid it was not built for gets it resized as an image. Pairs with a prefix token
    have three rows of their own [Bao+ 2022, BEiT's code] if prefix tokens own rows, else no bias.
    """

    attends = biases = True
    smoothness: Smoothness = "bicubic"

    def __init__(self, heads: int, *, grid: Grid, prefix: int = 0) -> None:
        super().__init__()
        self.spans = tuple(2 * size - 1 for size in grid)
        self.table = nn.Parameter(torch.empty(math.prod(self.spans), heads))
        self.prefix_table = nn.Parameter(torch.empty(PREFIX_ROWS, heads)) if prefix else None
        for table in self.parameters():
            nn.init.trunc_normal_(table, std=0.02)

    def prepare(
        self, queries: Places, keys: Places, device: torch.device | None = None
    ) -> tuple[Int[Tensor, "#b n m"], tuple[int, ...]]:
        check_axes(queries.grid, len(self.spans))
        sizes = tuple(max(pair) for pair in zip(queries.grid, keys.grid, strict=True))
        rows = offset_rows(queries, keys, tuple(size - 1 for size in sizes), device)
        return rows, tuple(2 * size - 1 for size in sizes)

    def bias(self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope) -> Float[Tensor, "#b #h n m"]:
        rows, spans = scope.prepared
        table = resize_table(self.table, self.spans, spans, smoothness=self.smoothness)
        prefix = self.prefix_table if self.prefix_table is not None else table.new_zeros(PREFIX_ROWS, table.shape[1])
        bias = F.embedding(rows, torch.cat([table, prefix]).to(q.dtype))  # b|1 n m h; its gradient is fast
        return bias.permute(0, 3, 1, 2).contiguous()


class ContinuousBias(Position):
    """B_ij = 16 · sigmoid(G(x̂_i - x̂_j)), G an MLP with ReLU  [Liu+ 2022, Swin-V2, eq. 3 and published code].

    x̂ is sign(x) · log2(1 + 8 |x| / (size - 1)) / 3 [ibid., eq. 4, scaled as published]: a larger window asks for few offsets that are
    far outside of what was learned. `grid` is the size for which the outermost offset is 8; pairs with a prefix token have no bias.
    """

    attends = biases = True

    def __init__(self, heads: int, *, grid: Grid, hidden: int = 512) -> None:
        super().__init__()
        self.grid, self.heads = grid, heads
        self.mlp = nn.Sequential(nn.Linear(len(grid), hidden), nn.ReLU(), nn.Linear(hidden, heads, bias=False))

    def prepare(
        self, queries: Places, keys: Places, device: torch.device | None = None
    ) -> tuple[Int[Tensor, "#b n m"], Float[Tensor, "r a"]]:
        """The row of each pair, and the offsets that rows are about."""
        check_axes(queries.grid, len(self.grid))
        reach = tuple(max(pair) - 1 for pair in zip(queries.grid, keys.grid, strict=True))
        return offset_rows(queries, keys, reach, device), log_offsets(reach, self.grid, device)

    def table(self, offsets: Float[Tensor, "r a"]) -> Float[Tensor, "r h"]:
        return LARGEST * self.mlp(offsets.to(next(self.mlp.parameters()).dtype)).sigmoid()

    def bias(self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope) -> Float[Tensor, "#b #h n m"]:
        rows, offsets = scope.prepared
        table = F.pad(self.table(offsets), (0, 0, 0, PREFIX_ROWS)).to(q.dtype)
        return F.embedding(rows, table).permute(0, 3, 1, 2).contiguous()


def log_offsets(reach: Grid, grid: Grid, device: torch.device | None = None) -> Float[Tensor, "r a"]:
    """Every offset from -reach to reach, raster order, each axis as sign(x) · log2(1 + 8 |x| / (size - 1)) / log2(8)."""
    axes = [
        torch.arange(-far, far + 1, dtype=torch.float32, device=device) * (REACH / max(1, size - 1))
        for far, size in zip(reach, grid, strict=True)
    ]
    offsets = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)
    return offsets.sign() * (offsets.abs() + 1).log2() / math.log2(REACH)
