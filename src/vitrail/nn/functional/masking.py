"""Which patches are masked: at random, or rectangles of them, so that a masked one cannot be distinguished from its neighbors. Masks are True where a patch is masked.

b batch, c cells, r cells that are kept, t rectangles, gh gw grid
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.errors import VitrailError


def draw_kept(
    batch: int, cells: int, hide: float, *, generator: torch.Generator | None = None, device: torch.device | None = None
) -> Int[Tensor, "b r"]:
    """Cells to keep, drawn anew for each image; a generator makes them the same again."""
    return keep_lowest(torch.rand(batch, cells, generator=generator, device=device), hide)


def keep_lowest(numbers: Float[Tensor, "b c"], hide: float) -> Int[Tensor, "b r"]:
    """The cells with the lowest numbers, in raster order: all but a share `hide` of them, one at least  [He+ 2022, MAE, section 3].

    The paper shuffles the tokens and keeps the first; attention does not know the order, and in this one what is kept reads as an image.
    """
    cells = numbers.shape[1]
    count = min(max(1, round((1.0 - hide) * cells)), cells - 1)  # and one is hidden, or there is nothing to learn
    return numbers.topk(count, dim=1, largest=False, sorted=False).indices.sort(dim=1).values


def hidden_from(kept: Int[Tensor, "b r"], cells: int) -> Bool[Tensor, "b c"]:
    """True for the cells that are not among `kept`."""
    return torch.ones(len(kept), cells, dtype=torch.bool, device=kept.device).scatter_(1, kept, False)


BLOCKS = 32  # rectangles that are drawn at most; the asked share is mostly reached with five
ASPECT = 0.3  # height over width, at least; 1 / 0.3 at most
SMALLEST = 16 / 196  # of the cells: 16 of a grid of 14x14  [Bao+ 2022]


def hide_blocks(
    numbers: Float[Tensor, "b t 4"], grid: tuple[int, int], count: int, *, smallest: float = SMALLEST, aspect: float = ASPECT
) -> Bool[Tensor, "b c"]:
    """Rectangles of random size, aspect and place, one over the other, until `count` cells are hidden  [Bao+ 2022, algorithm 1].

    A function of four numbers in [0, 1) for each rectangle: its size, from a share `smallest` of the cells to what is still to be
    hidden, its aspect, on a logarithmic scale as in the published code, its top and its left. Where we differ: the last rectangle is cut,
    row by row, so that `count` is met exactly and every image has as many to guess; and should all rectangles not be enough, which
    takes a share near 1, the rest is hidden from the top on.
    """
    (rows, columns), cells = grid, math.prod(grid)
    if not 0 <= count <= cells:
        raise VitrailError(f"of {cells} cells {count} cannot be hidden")
    least = max(1.0, smallest * cells)
    hidden = numbers.new_zeros(len(numbers), cells, dtype=torch.bool)
    down, across = torch.arange(rows, device=numbers.device), torch.arange(columns, device=numbers.device)
    for number in range(numbers.shape[1] + 1):
        left_over = count - hidden.sum(1)
        if not bool(left_over.any()):
            break
        if number == numbers.shape[1]:
            block = torch.ones_like(hidden)
        else:
            size, ratio, top, left = numbers[:, number].unbind(1)
            area = least + size * (left_over - least).clamp(min=0)
            ratio = torch.exp((2 * ratio - 1) * -math.log(aspect))
            tall = (area * ratio).sqrt().round().clamp(1, rows)
            wide = (area / ratio).sqrt().round().clamp(1, columns)
            block = (inside(down, top, tall)[:, :, None] & inside(across, left, wide)[:, None, :]).flatten(1)
        new = block & ~hidden
        hidden |= new & (new.cumsum(1) <= left_over[:, None])
    return hidden


def inside(places: Tensor, where: Float[Tensor, "b"], length: Float[Tensor, "b"]) -> Bool[Tensor, "b n"]:
    """True for the `length` places of an axis that begin at a share `where` of those they can begin at."""
    first = (where * (len(places) - length + 1)).floor()[:, None]
    return (places >= first) & (places < first + length[:, None])
