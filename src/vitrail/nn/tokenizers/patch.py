"""The patch tokenizer: cut, then project, for any number of axes. And patch merging: four neighbors become one token of twice their width.

b batch, ch channels, n patches, d width
"""

import math
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.functional.patches import check_patches, patchify, unpatchify
from vitrail.tokens import Grid, Tokens


class PatchTokenizer(nn.Module):
    """x_p E: flattened patches times one matrix  [Dosovitskiy+ 2021, eq. 1].

    Equal to a convolution whose kernel and stride are the patch; as one matrix product it is faster on a CPU and has no
    limit on the axes: (16, 16) for images, (2, 16, 16) for clips, (8,) for a line. With `pad`, zeros behind the last pixels
    make any size one of whole patches, else such a size is refused.
    """

    def __init__(self, in_channels: int, width: int, *, patch: tuple[int, ...], pad: bool = False) -> None:
        super().__init__()
        if any(side < 1 for side in patch):
            raise VitrailError(f"a patch's sides must be at least 1, got {patch}")
        self.in_channels, self.patch, self.pad = in_channels, patch, pad
        self.project = nn.Linear(in_channels * math.prod(patch), width)

    def grid(self, size: tuple[int, ...]) -> Grid:
        return check_patches(tuple(side + more for side, more in zip(size, self.missing(size), strict=True)), self.patch)

    def missing(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """How many pixels are added behind each axis."""
        return tuple(-side % step for side, step in zip(size, self.patch, strict=True)) if self.pad else (0,) * len(size)

    def forward(self, images: Float[Tensor, "b ch *size"]) -> Tokens:
        if any(missing := self.missing(tuple(images.shape[2:]))):
            images = F.pad(images, [pixels for side in reversed(missing) for pixels in (0, side)])
        return Tokens(self.project(patchify(images, self.patch)), grid=self.grid(tuple(images.shape[2:])))

    def pixels(self, patches: Float[Tensor, "b n p"], grid: Grid) -> Float[Tensor, "b ch *size"]:
        """Patches of pixels back to images: the inverse of the cut."""
        return unpatchify(patches, self.patch, grid)


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
