"""How much of a map falls inside an object, against chance.

b images, gh gw grid, h w image
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from vitrail.errors import VitrailError


@dataclass(frozen=True, kw_only=True)
class Inside:
    """For each image the share of its map inside, the share of its area that is inside (chance), and share / chance.

    The ratio of an image without an inside is NaN.
    """

    share: Float[Tensor, "b"]
    chance: Float[Tensor, "b"]
    ratio: Float[Tensor, "b"]


def share_inside(
    maps: Float[Tensor, "b gh gw"],
    inside: Bool[Tensor, "b h w"] | Float[Tensor, "b 4"],
    *,
    size: tuple[int, int] | None = None,
) -> Inside:
    """Σ map inside / Σ map, with the map enlarged bilinearly to the pixels of the mask, as an overlay is drawn.

    `inside`: masks, True inside, or boxes x0 y0 x1 y1 in pixels of an image of `size` (rows, columns), which have the pixels
    whose centers they hold. A map that is 0 everywhere counts as an even one.
    """
    if (maps < 0).any():
        raise VitrailError(f"a share needs a map without negative numbers, the lowest is {float(maps.min()):g}")
    if inside.dtype != torch.bool:
        if size is None:
            raise VitrailError("boxes are in pixels: give the image's size=(rows, columns)")
        inside = boxes_to_masks(inside, size)
    masks = inside.to(maps.device)
    large = enlarge(maps, (masks.shape[1], masks.shape[2])).double()
    total = large.sum(dim=(1, 2))
    chance = masks.double().mean(dim=(1, 2))
    share = torch.where(total > 0, (large * masks).sum(dim=(1, 2)) / total.clamp(min=torch.finfo(total.dtype).tiny), chance)
    ratio = torch.where(chance > 0, share / chance, torch.nan)
    return Inside(share=share.float(), chance=chance.float(), ratio=ratio.float())


def enlarge(maps: Float[Tensor, "b gh gw"], size: tuple[int, int]) -> Float[Tensor, "b h w"]:
    """Bilinear, cell centers aligned, the border's value beyond the outermost centers; of what is made smaller, the mean."""
    smaller = any(new < old for new, old in zip(size, maps.shape[1:], strict=True))
    return F.interpolate(maps[:, None], size=size, mode="bilinear", align_corners=False, antialias=smaller)[:, 0]


def boxes_to_masks(boxes: Float[Tensor, "b 4"], size: tuple[int, int]) -> Bool[Tensor, "b h w"]:
    """True for pixels whose centers lie in x0 <= x < x1, y0 <= y < y1."""
    rows, columns = (torch.arange(side, device=boxes.device) + 0.5 for side in size)
    left, top, right, bottom = boxes[:, :, None].unbind(1)  # b 1 each
    across = (columns >= left) & (columns < right)  # b w
    down = (rows >= top) & (rows < bottom)  # b h
    return down[:, :, None] & across[:, None, :]
