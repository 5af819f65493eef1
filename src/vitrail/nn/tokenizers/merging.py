"""Patch merging: four neighbors become one token of twice their width.

b batch, n tokens, d width
"""

from typing import Literal

import torch.nn.functional as F
from torch import nn

from vitrail.errors import VitrailError
from vitrail.tokens import Grid, Tokens


class PatchMerging(nn.Module):
    """W [x_00; x_10; x_01; x_11], of a grid's 2x2 neighbors  [Liu+ 2021, Swin, section 3.1]; the order is that of their code.

    The norm stands before the product, or behind it [Liu+ 2022, Swin-V2's code]. Odd sides get a row or column of zeros.
    """

    def __init__(self, width: int, *, norm: Literal["before", "behind"] = "before", eps: float = 1e-5) -> None:
        super().__init__()
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)
        self.norm = nn.LayerNorm(4 * width if norm == "before" else 2 * width, eps=eps)
        self.norm_before = norm == "before"

    def grid(self, grid: Grid) -> Grid:
        return tuple(-(-side // 2) for side in grid)

    def forward(self, tokens: Tokens) -> Tokens:
        if len(tokens.grid) != 2 or tokens.prefix or tokens.index is not None or tokens.mask is not None:
            raise VitrailError("patch merging needs a grid of two axes, all of its cells, and nothing else")
        x, (height, width) = tokens.x, tokens.grid
        x = x.reshape(x.shape[0], height, width, -1)
        if height % 2 or width % 2:
            x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
        rows, columns = self.grid(tokens.grid)
        x = x.reshape(x.shape[0], rows, 2, columns, 2, -1).permute(0, 1, 3, 4, 2, 5).reshape(x.shape[0], rows * columns, -1)
        x = self.reduction(self.norm(x)) if self.norm_before else self.norm(self.reduction(x))
        return tokens._replace(x=x, grid=(rows, columns))
