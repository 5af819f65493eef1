"""Maps of several sizes: what a map says at coarser scales, and four sizes made of four maps of one size.

b batch, d width, h w grid
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.functional.maps import stretch
from vitrail.nn.heads.segmentation.normed_convolution import MapNorm, NormedConvolution, build_map_norm

SIZES = (1, 2, 3, 6)  # [Zhao+ 2017, section 3.2]
LEVELS = 4


class PyramidPooling(nn.Module):
    """y = relu(norm(3x3 [x; u_1; u_2; u_3; u_6])),  u_s = stretch(relu(norm(1x1 mean of x over s x s parts)))  [Zhao+ 2017, fig. 3c]."""

    def __init__(self, width: int, *, hidden: int, norm: MapNorm) -> None:
        super().__init__()
        self.branches = nn.ModuleList(NormedConvolution(width, hidden, kernel=1, norm=norm) for _ in SIZES)
        self.fuse = NormedConvolution(width + len(SIZES) * hidden, hidden, norm=norm)

    def forward(self, x: Float[Tensor, "b d h w"]) -> Float[Tensor, "b e h w"]:
        return self.fuse(torch.cat([x, *self.parts(x)], dim=1))

    def parts(self, x: Float[Tensor, "b d h w"]) -> list[Float[Tensor, "b e h w"]]:
        """What each scale has to say, at every place."""
        size = (x.shape[2], x.shape[3])
        return [
            stretch(branch(F.adaptive_avg_pool2d(x, parts)), size) for branch, parts in zip(self.branches, SIZES, strict=True)
        ]


class Rescaling(nn.Module):
    """Four maps of a plain encoder made 4, 2, 1 and 1/2 times as large  [Bao+ 2022, appendix on segmentation; El-Nouby+ 2021, XCiT].

    By transposed convolutions, of which the first two have a norm and a GELU between them, and by 2x2 max-pooling.
    """

    def __init__(self, width: int, *, norm: MapNorm) -> None:
        super().__init__()
        self.first, self.second, self.twice = (nn.ConvTranspose2d(width, width, 2, stride=2) for _ in range(3))
        self.norm = build_map_norm(norm, width)

    def forward(self, maps: Sequence[Float[Tensor, "b d h w"]]) -> list[Float[Tensor, "b d _ _"]]:
        assert len(maps) == LEVELS
        fine = self.second(F.gelu(self.norm(self.first(maps[0]))))
        return [fine, self.twice(maps[1]), maps[2], F.max_pool2d(maps[3], 2)]
