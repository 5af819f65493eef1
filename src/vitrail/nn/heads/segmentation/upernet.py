"""UPerNet's head: pyramid pooling on the coarsest map, a feature pyramid down to the finest, all levels fused  [Xiao+ 2018, section 3.1, fig. 4].

b batch, k classes, y x grid of the finest map
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.functional.maps import stretch
from vitrail.nn.heads.segmentation.normed_convolution import MapNorm, NormedConvolution
from vitrail.nn.heads.segmentation.pyramid import PyramidPooling, Rescaling


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
