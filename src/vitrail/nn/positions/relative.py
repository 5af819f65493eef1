"""Relative positions as learned rows that queries are compared with: Shaw's form, and the form through W_K.

b batch, h heads, n queries, m keys, r rows of a table, w width, d key width, e value width

On several axes the row of an offset is the sum of a row for each axis [Li+ 2022, MViTv2, eq. 4]. Distances beyond the `reach` of an
axis have its outermost row, so both forms extrapolate to grids of any size, not to other numbers of axes. Pairs with a
prefix token have three rows of their own if prefix tokens own rows, else zeros.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.adapters.lora import weight_of
from vitrail.nn.functional.offsets import PREFIX_ROWS, Lines, axis_lines, collect, look_up, put_back, spread
from vitrail.nn.positions.position import Position, check_axes
from vitrail.scope import FusedRead, KeyedPosition, PositionCache, Scope
from vitrail.tokens import Grid, Places

SHAW_REACH = 16  # [Shaw+ 2018, section 4.1]


class RelativeRows(Position):
    """What both forms share: rows for offsets x_j - x_i along each axis, and where to look them up."""

    attends = biases = True

    def __init__(self, *, grid: Grid, reach: int | None = None, line: bool = False) -> None:
        super().__init__()
        sizes = Places(grid).line().grid if line else grid
        self.line = line
        self.reach = tuple(size - 1 if reach is None else min(reach, size - 1) for size in sizes)  # no row without a use

    def new_table(self, width: int, prefix: int) -> nn.Parameter:
        rows = sum(2 * far + 1 for far in self.reach) + (PREFIX_ROWS if prefix else 0)
        return nn.Parameter(nn.init.trunc_normal_(torch.empty(rows, width), std=0.02))

    def padded(self, table: Float[Tensor, "r w"]) -> Float[Tensor, "r2 w"]:
        """With zeros for pairs with prefix tokens, where they own no rows, and the last row that stands for nothing."""
        return F.pad(table, (0, 0, 0, sum(2 * far + 1 for far in self.reach) + PREFIX_ROWS + 1 - len(table)))

    def prepare(self, queries: Places, keys: Places, device: torch.device | None = None) -> Lines:
        if self.line:
            queries, keys = queries.line(), keys.line()
        check_axes(queries.grid, len(self.reach))
        return axis_lines(queries, keys, self.reach, device)


class RelativeShaw(RelativeRows, FusedRead):
    """e_ij = q_i (k_j + a_K)^T / sqrt(d),  z_i = sum_j alpha_ij (v_j + a_V),  rows a of clip(x_j - x_i)  [Shaw+ 2018, eq. 3-5].

    One table for all heads [section 3.3]. No b n m d tensor is formed: q a_K^T is n r and looked up, and for a_V the weights are
    first collected onto the rows.
    """

    reads = True

    def __init__(
        self, key_width: int, *, value_width: int | None = None, grid: Grid, prefix: int = 0, line: bool = False
    ) -> None:
        super().__init__(grid=grid, reach=SHAW_REACH, line=line)
        self.key_table = self.new_table(key_width, prefix)
        self.value_table = self.new_table(value_width or key_width, prefix)

    def bias(self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope) -> Float[Tensor, "#b #h n m"]:
        return spread(self.scores(q), scope.prepared)

    def scores(self, q: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n r"]:
        table = self.padded(self.key_table).to(q.dtype) * q.shape[-1] ** -0.5  # r d
        return q @ table.T

    def read(self, weights: Float[Tensor, "b h n m"], scope: Scope) -> Float[Tensor, "b #h n e"]:
        table = self.padded(self.value_table).to(weights.dtype)  # r e
        return collect(weights, scope.prepared, len(table)) @ table

    def lengthen(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], v: Float[Tensor, "b h m e"], scope: Scope
    ) -> tuple[Float[Tensor, "b h n x"], Float[Tensor, "b h m x"], Float[Tensor, "b h m x"]] | None:
        """[q / sqrt(d), its score of each line], [k, its lines], [v, its lines]: attention over these has both terms in it.

        With a line for each key (one axis) that would be longer than what it saves.
        """
        lines: Lines = scope.prepared
        if lines.keys is None or q.shape[-1] != v.shape[-1]:  # unequal widths leave torch's fused path
            return None
        on = lines.keys.to(q.dtype)[:, None].expand(*k.shape[:2], -1, -1)  # b h m s
        longer = torch.cat([q * q.shape[-1] ** -0.5, look_up(self.scores(q), lines)], dim=-1)
        return longer, torch.cat([k, on], dim=-1), torch.cat([v, on], dim=-1)

    def shorten(self, out: Float[Tensor, "b h n x"], scope: Scope) -> Float[Tensor, "b h n e"]:
        lines, table = scope.prepared, self.padded(self.value_table).to(out.dtype)
        values, seen = out[..., : table.shape[1]], out[..., table.shape[1] :]
        return values + put_back(seen, lines, len(table)) @ table


class RelativeProjected(RelativeRows, KeyedPosition):
    """A_ij = x_i W_Q ((x_j + P_{x(j)-x(i)}) W_K)^T / sqrt(d)  [Romero and Cordonnier 2021, after Shaw+ 2018].

    P has the tokens' width and goes through the layer's own W_K, whose bias is in k_j already; values are untouched. Every
    offset of the grid it was built for has a row.
    """

    def __init__(self, width: int, *, grid: Grid, prefix: int = 0, line: bool = False) -> None:
        super().__init__(grid=grid, line=line)
        self.table = self.new_table(width, prefix)

    def project(self, key: nn.Linear, scope: Scope) -> Scope:
        def projected() -> Float[Tensor, "r w"]:
            return F.linear(self.padded(self.table), weight_of(key))  # r (h d)

        table = scope.cache.once(projected) if isinstance(scope.cache, PositionCache) else projected()
        return scope._replace(prepared=(scope.prepared, table))

    def bias(self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope) -> Float[Tensor, "#b #h n m"]:
        lines, table = scope.prepared
        heads = (table * q.shape[-1] ** -0.5).to(q.dtype).view(len(table), q.shape[1], -1).permute(1, 2, 0)  # h d r
        return spread(torch.einsum("bhnd,hdr->bhnr", q, heads), lines)  # @ would copy the table for each image
