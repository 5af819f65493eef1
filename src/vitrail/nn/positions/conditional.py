"""Conditional positions: what a token's neighborhood holds tells where it is; and the neighbors on a grid of which some cells are missing.

b batch, n tokens, m of them as keys, c cells, k offsets, a axes, d width
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.positions.position import Position, check_axes
from vitrail.scope import PositionCache, Scope
from vitrail.tokens import Grid, Places


def window_offsets(axes: int, side: int, device: torch.device | None = None) -> Int[Tensor, "k a"]:
    """The offsets of a window of odd side, in raster order, from (-r, -r) to (r, r)."""
    line = torch.arange(side, device=device) - side // 2
    return torch.stack(torch.meshgrid(*[line] * axes, indexing="ij"), dim=-1).flatten(0, -2)


def find_neighbors(
    index: Int[Tensor, "b c"],
    grid: Grid,
    side: int,
    *,
    segments: Int[Tensor, "b c"] | None = None,
    real: Bool[Tensor, "b c"] | None = None,
    causal: bool = False,
) -> Int[Tensor, "b c k"]:
    """Which token stands at each offset from each token, in its own segment; c where there is none.

    `causal` leaves out the offsets to cells that come after the token in raster order.
    By binary search among the cells' numbers, so that no shape depends on what is found.
    """
    cells = math.prod(grid)
    axes = [torch.arange(size, device=index.device) for size in grid]
    coordinates = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)[index]  # b c a
    offsets = window_offsets(len(grid), side, index.device)
    offsets = offsets[: len(offsets) // 2 + 1] if causal else offsets
    target = coordinates[:, :, None] + offsets  # b c k a
    sizes = torch.tensor(grid, device=index.device)
    inside = ((target >= 0) & (target < sizes)).all(-1)
    number = torch.zeros_like(target[..., 0])
    for axis, size in enumerate(grid):
        number = number * size + target[..., axis]
    own = index if segments is None else index + segments * cells
    wanted = number if segments is None else number + (segments * cells)[:, :, None]
    if real is not None:
        own = own.masked_fill(~real, torch.iinfo(own.dtype).max)
    ordered, order = own.sort(dim=1)
    count = index.shape[1]
    flat = wanted.flatten(1)  # b (c k)
    place = torch.searchsorted(ordered, flat).clamp(max=count - 1)
    hit = (ordered.gather(1, place) == flat) & inside.flatten(1)
    return order.gather(1, place).masked_fill(~hit, count).view_as(number)


CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


class Conditional(Position):
    """x + depthwise 3x3 convolution of x over the grid  [Chu+ 2021, CPVT: the positional encoding generator].

    The zeros beyond the border are what gives absolute positions away [Islam+ 2020]. `only` is the block it stands in front
    of: the second, as published; None: every block. Prefix tokens are left as they are. Takes any size of grid
    (extrapolates): nothing in it depends on one. Cells without a token, padding and other packed images are read as zeros.
    `causal`: only neighbors that are not after the token in raster order, and rows for those alone.
    """

    enters = True
    side = 3

    def __init__(self, width: int, *, axes: int, only: int | None = None, causal: bool = False) -> None:
        super().__init__()
        self.axes, self.only, self.causal = axes, only, causal
        window = self.side**axes
        window = window // 2 + 1 if causal else window
        self.table = nn.Parameter(torch.empty(window, width).uniform_(-(window**-0.5), window**-0.5))  # as torch's convolutions
        self.bias_row = nn.Parameter(torch.zeros(width))

    def prepare(self, queries: Places, keys: Places, device: torch.device | None = None) -> None:
        check_axes(queries.grid, self.axes)

    def enter(self, x: Float[Tensor, "b n d"], layer: int, scope: Scope) -> Float[Tensor, "b n d"]:
        if self.only is not None and layer != self.only:
            return x
        places = scope.queries
        assert places is not None
        if scope.causal and not self.causal:
            raise VitrailError(
                "this conditional position reads neighbors on both sides: in causal attention it would tell the future"
            )
        if isinstance(scope.cache, PositionCache):  # earlier inputs are neighbors too
            seen = scope.cache.enter(x)
            assert scope.keys is not None
            return x + self.match(seen, scope.keys, None, None)[:, -x.shape[1] :]
        cells, real = x[:, places.prefix :], real_tokens(scope)
        real = None if real is None else real[:, places.prefix :]
        if places.index is None and not self.causal:
            cells = cells + self.convolve(cells, places, real)
        else:
            segments = packed_images(scope)
            segments = None if segments is None else segments[:, places.prefix :]
            cells = cells + self.match(cells, places, segments, real)
        return torch.cat([x[:, : places.prefix], cells], dim=1) if places.prefix else cells

    def convolve(
        self, cells: Float[Tensor, "b c d"], places: Places, real: Bool[Tensor, "#b c"] | None
    ) -> Float[Tensor, "b c d"]:
        """All cells are there, in raster order."""
        if real is not None:
            cells = cells * real[..., None]
        weight = self.table.T.reshape(-1, 1, *[self.side] * self.axes).to(cells.dtype)  # d 1 3 3
        image = cells.transpose(1, 2).reshape(cells.shape[0], -1, *places.grid)  # b d *grid
        out = CONVOLVE[self.axes](image, weight, self.bias_row.to(cells.dtype), padding=self.side // 2, groups=weight.shape[0])
        return out.flatten(2).transpose(1, 2)

    def match(
        self,
        cells: Float[Tensor, "b c d"],
        places: Places,
        segments: Int[Tensor, "b c"] | None,
        real: Bool[Tensor, "#b c"] | None,
    ) -> Float[Tensor, "b c d"]:
        """Some cells are missing, or several images are packed: the same sum over the neighbors that are there."""
        batch, count, _ = cells.shape
        index = torch.arange(count, device=cells.device)[None] if places.index is None else places.index
        if segments is not None or real is not None:
            index = index.expand(batch, -1)
        real = None if real is None else real.expand(batch, -1)
        neighbors = find_neighbors(index, places.grid, self.side, segments=segments, real=real, causal=self.causal)
        neighbors = neighbors.expand(batch, -1, -1)  # b c k
        with_none = F.pad(cells, (0, 0, 0, 1))  # b c+1 d
        out = self.bias_row.to(cells.dtype).expand_as(cells)
        for offset, row in enumerate(self.table.to(cells.dtype)):  # one offset at a time: b c k d would be nine times x
            out = out + row * with_none.gather(1, neighbors[:, :, offset, None].expand_as(cells))
        return out


def real_tokens(scope: Scope) -> Bool[Tensor, "#b n"] | None:
    """Which tokens are no padding: those that may attend to themselves."""
    mask = allowed(scope)
    return mask if mask is None else mask[:, 0] if mask.shape[1] == 1 else mask.diagonal(dim1=1, dim2=2)


def packed_images(scope: Scope) -> Int[Tensor, "#b n"] | None:
    """A number of the packed image that each token is of, the first token that it may attend to; None: all are of one."""
    mask = allowed(scope)
    return None if mask is None or mask.shape[1] == 1 else mask.int().argmax(-1)


def allowed(scope: Scope) -> Bool[Tensor, "#b #n m"] | None:
    """Who may attend to whom, whatever the head."""
    if scope.mask is None:
        return None
    mask = scope.mask[:, 0]
    return mask if mask.dtype == torch.bool else ~mask.isneginf()
