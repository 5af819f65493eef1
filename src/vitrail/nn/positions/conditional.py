"""Conditional positions: what a token's neighborhood holds tells where it is.

b batch, n tokens, c cells, k offsets, a axes, d width
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vitrail.nn.functional.neighbors import find_neighbors
from vitrail.nn.positions.position import Position, check_axes
from vitrail.scope import Scope
from vitrail.tokens import Places

CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


class Conditional(Position):
    """x + depthwise 3x3 convolution of x over the grid  [Chu+ 2021, CPVT: the positional encoding generator].

    The zeros beyond the border are what gives absolute positions away [Islam+ 2020]. `only` is the block it stands in front
    of: the second, as published; None: every block. Prefix tokens are left as they are. Takes any size of grid
    (extrapolates): nothing in it depends on one. Cells without a token, padding and other packed pictures are read as zeros.
    """

    enters = True
    side = 3

    def __init__(self, width: int, *, axes: int, only: int | None = None) -> None:
        super().__init__()
        self.axes, self.only = axes, only
        window = self.side**axes
        self.table = nn.Parameter(torch.empty(window, width).uniform_(-(window**-0.5), window**-0.5))  # as torch's convolutions
        self.bias_row = nn.Parameter(torch.zeros(width))

    def prepare(self, queries: Places, keys: Places, device: torch.device | None = None) -> None:
        check_axes(queries.grid, self.axes)

    def enter(self, x: Float[Tensor, "b n d"], layer: int, scope: Scope) -> Float[Tensor, "b n d"]:
        if self.only is not None and layer != self.only:
            return x
        places = scope.queries
        assert places is not None
        cells, real = x[:, places.prefix :], real_tokens(scope)
        real = None if real is None else real[:, places.prefix :]
        cells = cells + (self.convolve(cells, places, real) if places.index is None else self.match(cells, scope, real))
        return torch.cat([x[:, : places.prefix], cells], dim=1) if places.prefix else cells

    def convolve(
        self, cells: Float[Tensor, "b c d"], places: Places, real: Bool[Tensor, "#b c"] | None
    ) -> Float[Tensor, "b c d"]:
        """All cells are there, in raster order."""
        if real is not None:
            cells = cells * real[..., None]
        weight = self.table.T.reshape(-1, 1, *[self.side] * self.axes).to(cells.dtype)  # d 1 3 3
        picture = cells.transpose(1, 2).reshape(cells.shape[0], -1, *places.grid)  # b d *grid
        out = CONVOLVE[self.axes](
            picture, weight, self.bias_row.to(cells.dtype), padding=self.side // 2, groups=weight.shape[0]
        )
        return out.flatten(2).transpose(1, 2)

    def match(self, cells: Float[Tensor, "b c d"], scope: Scope, real: Bool[Tensor, "#b c"] | None) -> Float[Tensor, "b c d"]:
        """Some cells are missing, or several pictures are packed: the same sum over the neighbors that are there."""
        places = scope.queries
        assert places is not None
        assert places.index is not None
        segments = None if scope.segments is None else scope.segments[:, places.prefix :]
        real = None if real is None else real.expand(cells.shape[0], -1)
        neighbors = find_neighbors(places.index, places.grid, self.side, segments=segments, real=real)  # b c k
        with_none = F.pad(cells, (0, 0, 0, 1))  # b c+1 d
        out = self.bias_row.to(cells.dtype).expand_as(cells)
        for offset, row in enumerate(self.table.to(cells.dtype)):  # one offset at a time: b c k d would be nine times x
            out = out + row * with_none.gather(1, neighbors[:, :, offset, None].expand_as(cells))
        return out


def real_tokens(scope: Scope) -> Bool[Tensor, "#b n"] | None:
    """Which tokens are no padding: those that may attend to themselves."""
    if scope.mask is None:
        return None
    mask = scope.mask[:, 0]
    return mask[:, 0] if mask.shape[1] == 1 else mask.diagonal(dim1=1, dim2=2)
