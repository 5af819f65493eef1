"""Neighbors on a grid of which some cells are missing, or which several pictures share.

b batch, c tokens, k = side^a offsets (half of them and the middle one, if causal), a axes
"""

import math

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from vitrail.tokens import Grid


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
