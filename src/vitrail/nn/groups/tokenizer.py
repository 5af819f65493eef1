"""From pictures to tokens on a group: by a lifting patch projection, or pixel by pixel for a lifting attention to follow.

b batch, ch channels, h w picture, d width
"""

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.groups.convolution import LiftingConvolution, maps_to_tokens
from vitrail.nn.groups.group import PlaneGroup
from vitrail.tokens import Grid, Tokens


class LiftingPatches(nn.Module):
    """x_p E_h: each patch times one matrix as every element h sees it, the patch projection of [Dosovitskiy+ 2021, eq. 1] lifted.

    Cheaper than a lifting attention between pixels. Patches may overlap by `overlap` pixels on every side.
    """

    def __init__(self, in_channels: int, width: int, *, group: PlaneGroup, patch: int, overlap: int = 0) -> None:
        super().__init__()
        self.project = LiftingConvolution(in_channels, width, group=group, stride=patch, overlap=overlap)

    def grid(self, size: tuple[int, int]) -> Grid:
        return self.project.grid(size)

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        return maps_to_tokens(self.project(images), self.project.group)


class RepeatedPixels(nn.Module):
    """W x, the same at every element: what a lifting attention starts from."""

    def __init__(self, in_channels: int, width: int, *, group: PlaneGroup) -> None:
        super().__init__()
        self.group = group
        self.project = nn.Linear(in_channels, width)

    def grid(self, size: tuple[int, int]) -> Grid:
        self.group.check_grid(*size)
        return (self.group.order, *size)

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        grid = self.grid((images.shape[2], images.shape[3]))
        pixels = self.project(images.flatten(2).transpose(1, 2))  # b (h w) d
        return Tokens(pixels.repeat(1, self.group.order, 1), grid=grid)
