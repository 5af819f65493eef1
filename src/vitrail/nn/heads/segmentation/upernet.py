"""UPerNet's head: pyramid pooling on the coarsest map, a feature pyramid down to the finest, all levels fused  [Xiao+ 2018, section 3.1, fig. 4].

b batch, d width, k classes, h w grid, y x grid of the finest map
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


class UPerNetHead(nn.Module):
    """t_n = pool(x_n),  t_i = 1x1 x_i + stretch(t_{i+1}),  s = W 3x3 [3x3 t_1; ...; 3x3 t_{n-1}; t_n], each level stretched to the finest.

    Every convolution but W has a norm and a ReLU. `rescaling` makes levels of maps that are all of one size.
    """

    def __init__(
        self, widths: Sequence[int], *, classes: int, hidden: int, norm: MapNorm, rescaling: Rescaling | None = None
    ) -> None:
        super().__init__()
        self.rescaling = rescaling
        self.pooling = PyramidPooling(widths[-1], hidden=hidden, norm=norm)
        self.lateral = nn.ModuleList(NormedConvolution(width, hidden, kernel=1, norm=norm) for width in widths[:-1])
        self.smooth = nn.ModuleList(NormedConvolution(hidden, hidden, norm=norm) for _ in widths[:-1])
        self.fuse = NormedConvolution(len(widths) * hidden, hidden, norm=norm)
        self.output = nn.Conv2d(hidden, classes, 1)

    def forward(self, maps: Sequence[Float[Tensor, "b _ _ _"]]) -> Float[Tensor, "b k y x"]:
        if self.rescaling is not None:
            maps = self.rescaling(maps)
        finest = (maps[0].shape[2], maps[0].shape[3])
        top = self.pooling(maps[-1])
        levels = [top]
        for found, lateral, smooth in zip(reversed(maps[:-1]), reversed(self.lateral), reversed(self.smooth), strict=True):
            side = lateral(found)
            top = side + stretch(top, (side.shape[2], side.shape[3]))
            levels.insert(0, smooth(top))
        return self.output(self.fuse(torch.cat([stretch(level, finest) for level in levels], dim=1)))
