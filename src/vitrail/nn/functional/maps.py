"""Tokens as maps and back, and both on another grid: maps, tables of position rows, and filters of another patch size.

b batch, n m tokens or rows, d width or channels, ch channels, h w grid, y x another one, p q sides of a patch, r s sides of another
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def to_maps(x: Float[Tensor, "b n d"], grid: tuple[int, int]) -> Float[Tensor, "b d h w"]:
    return x.reshape(x.shape[0], *grid, x.shape[2]).permute(0, 3, 1, 2)


def to_tokens(maps: Float[Tensor, "b d h w"]) -> Float[Tensor, "b n d"]:
    return maps.permute(0, 2, 3, 1).flatten(1, 2)


def stretch(maps: Float[Tensor, "b d h w"], size: tuple[int, int]) -> Float[Tensor, "b d y x"]:
    """Bilinear, cell centers aligned (no corners pinned)."""
    if tuple(maps.shape[2:]) == tuple(size):
        return maps
    return F.interpolate(maps, size=size, mode="bilinear", align_corners=False)


MODES = {1: "linear", 2: "bicubic", 3: "trilinear"}
Smoothness = Literal["bicubic", "bilinear"]  # on two axes


def resize_table(
    table: Float[Tensor, "n d"],
    old: tuple[int, ...],
    new: tuple[int, ...],
    *,
    antialias: bool = False,
    smoothness: Smoothness = "bicubic",
) -> Float[Tensor, "m d"]:
    """The rows of `table` as an image of d channels on the grid `old`, interpolated to the grid `new`.

    [Dosovitskiy+ 2021, section 3.2]: 2-D interpolation of the position rows when fine-tuning at another resolution.
    Cell centers are aligned (no corners pinned), as torch's resize of an image has it; with `antialias` on two axes its other bicubic
    kernel, wider where the grid shrinks.
    """
    free = any(isinstance(side, torch.SymInt) for side in new)  # a program for any size: to compare would fix the size
    if not free and old == new:
        return table
    image = table.float().reshape(1, *old, -1).movedim(-1, 1)  # 1 d *old
    mode = smoothness if len(new) == 2 else MODES[len(new)]
    image = F.interpolate(image, size=new, mode=mode, align_corners=False, antialias=antialias)
    return image.movedim(1, -1).flatten(0, -2).to(table.dtype)  # m d


def resize_filters(filters: Float[Tensor, "d ch p q"], new: tuple[int, int]) -> Float[Tensor, "d ch r s"]:
    """Filters for patches of another size: argmin over v of E (<x, w> - <B x, v>)^2 = (B^T)^+ w, x standard normal  [Beyer+ 2023, FlexiViT, section 3.4].

    B resizes a patch x, bicubic and antialiased. It acts on rows and columns apart, and so does the inverse. Where patches grow nothing is
    lost: the resized filter gives of the resized patch what the filter gave of the patch.
    """
    rows, columns = (resizing(old, side) for old, side in zip(filters.shape[-2:], new, strict=True))
    found = torch.linalg.pinv(rows.T) @ filters.double().cpu() @ torch.linalg.pinv(columns)
    return found.to(filters)


def resizing(old: int, new: int) -> Float[Tensor, "m n"]:
    """The matrix that resizes one side of an image."""
    lines = torch.eye(old, dtype=torch.float64)[
        None, None
    ]  # of columns as they are: with one column torch's kernel goes astray
    return F.interpolate(lines, size=(new, old), mode="bicubic", align_corners=False, antialias=True)[0, 0]
