"""From feature maps to a larger image: the four reconstruction modules of SwinIR.

b batch, d width, out channels, h w maps, h2 w2 image
"""

from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError

Upsampler = Literal["pixelshuffle", "direct", "nearest_conv", "none"]
SLOPE = 0.2  # of the leaky ReLUs behind each enlargement; the one before them has torch's own, 0.01  [Liang+ 2021's code]


def convolution(in_channels: int, out_channels: int) -> nn.Conv2d:
    """3x3, the size kept."""
    return nn.Conv2d(in_channels, out_channels, 3, padding=1)


def steps_of(scale: int) -> tuple[int, ...]:
    """A scale as enlargements one behind the other: by 2 as often as it takes, or by 3 once."""
    if scale == 3:
        return (3,)
    if scale < 1 or scale & (scale - 1):
        raise VitrailError(f"an upsampler enlarges by 3 or by a power of two, got {scale}")
    return (2,) * (scale.bit_length() - 1)


class PixelShuffle(nn.Sequential):
    """Features, then a convolution to s² times as many and depth to space for each step, then pixels  [Shi+ 2016, eq. 4]; classical."""

    def __init__(self, width: int, *, out_channels: int, scale: int, features: int) -> None:
        parts: list[nn.Module] = [convolution(width, features), nn.LeakyReLU()]
        for step in steps_of(scale):
            parts += [convolution(features, step * step * features), nn.PixelShuffle(step)]
        super().__init__(*parts, convolution(features, out_channels))


class DirectUpsampling(nn.Sequential):
    """One convolution to all pixels of a place and one shuffle: few parameters, any scale; lightweight."""

    def __init__(self, width: int, *, out_channels: int, scale: int) -> None:
        super().__init__(convolution(width, scale * scale * out_channels), nn.PixelShuffle(scale))


class NearestUpsampling(nn.Module):
    """Every pixel repeated, then a convolution, for each step: no checkerboards; real-world."""

    def __init__(self, width: int, *, out_channels: int, scale: int, features: int) -> None:
        super().__init__()
        self.steps = steps_of(scale)
        self.before = convolution(width, features)
        self.enlarged = nn.ModuleList(convolution(features, features) for _ in self.steps)
        self.large = convolution(features, features)
        self.last = convolution(features, out_channels)

    def forward(self, x: Float[Tensor, "b d h w"]) -> Float[Tensor, "b out h2 w2"]:
        x = F.leaky_relu(self.before(x))
        for step, layer in zip(self.steps, self.enlarged, strict=True):
            x = F.leaky_relu(layer(F.interpolate(x, scale_factor=step, mode="nearest")), SLOPE)
        return self.last(F.leaky_relu(self.large(x), SLOPE))


def build_upsampling(kind: Upsampler, width: int, *, out_channels: int, scale: int, features: int) -> nn.Module:
    """The module of this kind; `none` keeps the size and is one convolution."""
    if kind == "none":
        if scale != 1:
            raise VitrailError(f'upsampler="none" keeps the size of the image: scale must be 1, got {scale}')
        return nn.Sequential(convolution(width, out_channels))
    if kind == "direct":
        return DirectUpsampling(width, out_channels=out_channels, scale=scale)
    if kind == "pixelshuffle":
        return PixelShuffle(width, out_channels=out_channels, scale=scale, features=features)
    return NearestUpsampling(width, out_channels=out_channels, scale=scale, features=features)
