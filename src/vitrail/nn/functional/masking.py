"""Which patches are hidden: at random. Masks are True where a patch is hidden.

b batch, c cells, r cells that are kept
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def draw_kept(
    batch: int, cells: int, hide: float, *, generator: torch.Generator | None = None, device: torch.device | None = None
) -> Int[Tensor, "b r"]:
    """Cells to keep, drawn anew for each picture; a generator makes them the same again."""
    return keep_lowest(torch.rand(batch, cells, generator=generator, device=device), hide)


def keep_lowest(numbers: Float[Tensor, "b c"], hide: float) -> Int[Tensor, "b r"]:
    """The cells with the lowest numbers, in raster order: all but a share `hide` of them, one at least  [He+ 2022, MAE, section 3].

    The paper shuffles the tokens and keeps the first; attention does not know the order, and in this one what is kept reads as a picture.
    """
    cells = numbers.shape[1]
    count = min(max(1, round((1.0 - hide) * cells)), cells - 1)  # and one is hidden, or there is nothing to learn
    return numbers.topk(count, dim=1, largest=False, sorted=False).indices.sort(dim=1).values


def hidden_from(kept: Int[Tensor, "b r"], cells: int) -> Bool[Tensor, "b c"]:
    """True for the cells that are not among `kept`."""
    return torch.ones(len(kept), cells, dtype=torch.bool, device=kept.device).scatter_(1, kept, False)
