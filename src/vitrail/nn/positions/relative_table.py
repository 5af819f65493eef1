"""Swin's relative position bias: a learned number for each offset and head.

b batch, h heads, n queries, m keys, d key width
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
