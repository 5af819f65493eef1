"""Stretch a table of position rows from one grid to another, and filters from one patch size to another.

n m rows, d width or channels, ch channels, p q sides of a patch, r s sides of another
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

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
    """The rows of `table` as a picture of d channels on the grid `old`, interpolated to the grid `new`.

    [Dosovitskiy+ 2021, section 3.2]: 2-D interpolation of the position rows when fine-tuning at another resolution.
    Cell centers are aligned (no corners pinned), as torch's resize of a picture has it; with `antialias` on two axes its other bicubic
    kernel, wider where the grid shrinks.
    """
    free = any(isinstance(side, torch.SymInt) for side in new)  # a program for any size: to compare would fix the size
    if not free and old == new:
        return table
    picture = table.float().reshape(1, *old, -1).movedim(-1, 1)  # 1 d *old
    mode = smoothness if len(new) == 2 else MODES[len(new)]
    picture = F.interpolate(picture, size=new, mode=mode, align_corners=False, antialias=antialias)
    return picture.movedim(1, -1).flatten(0, -2).to(table.dtype)  # m d


def resize_filters(filters: Float[Tensor, "d ch p q"], new: tuple[int, int]) -> Float[Tensor, "d ch r s"]:
    """Filters for patches of another size: argmin over v of E (<x, w> - <B x, v>)^2 = (B^T)^+ w, x standard normal  [Beyer+ 2023, FlexiViT, section 3.4].

    B resizes a patch x, bicubic and antialiased. It acts on rows and columns apart, and so does the inverse. Where patches grow nothing is
    lost: the resized filter gives of the resized patch what the filter gave of the patch.
    """
    rows, columns = (resizing(old, side) for old, side in zip(filters.shape[-2:], new, strict=True))
    found = torch.linalg.pinv(rows.T) @ filters.double().cpu() @ torch.linalg.pinv(columns)
    return found.to(filters)


def resizing(old: int, new: int) -> Float[Tensor, "m n"]:
    """The matrix that resizes one side of a picture."""
    lines = torch.eye(old, dtype=torch.float64)[
        None, None
    ]  # of columns as they are: with one column torch's kernel goes astray
    return F.interpolate(lines, size=(new, old), mode="bicubic", align_corners=False, antialias=True)[0, 0]
