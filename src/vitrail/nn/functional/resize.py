"""Stretch a table of position rows from one grid to another."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

MODES = {1: "linear", 2: "bicubic", 3: "trilinear"}


def resize_table(
    table: Float[Tensor, "n d"], old: tuple[int, ...], new: tuple[int, ...], *, antialias: bool = False
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
    picture = F.interpolate(picture, size=new, mode=MODES[len(new)], align_corners=False, antialias=antialias)
    return picture.movedim(1, -1).flatten(0, -2).to(table.dtype)  # m d
