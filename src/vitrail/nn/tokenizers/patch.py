"""The patch tokenizer: cut, then project. A strided convolution, for any number of axes.

b batch, ch channels, n patches, d width
"""

import math

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.functional.patches import check_patches, patchify, unpatchify
from vitrail.tokens import Grid, Tokens


class PatchTokenizer(nn.Module):
    """x_p E: flattened patches times one matrix  [Dosovitskiy+ 2021, eq. 1].

    Equal to a convolution whose kernel and stride are the patch; as one matrix product it is faster on a CPU and has no
    limit on the axes: (16, 16) for pictures, (2, 16, 16) for clips, (8,) for a line. With `pad`, zeros behind the last pixels
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
        """Patches of pixels back to pictures: the inverse of the cut."""
        return unpatchify(patches, self.patch, grid)
