"""The U-Net that fastMRI's papers compare with: convolutions at several resolutions, joined across.

b batch, ch channels, out channels that come out, h w image, h2 w2 the image that comes out
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.restorer import Restorer, check_restorer_config, step_of_tiles
from vitrail.nn.functional.patches import mirror_to_multiple

SLOPE = 0.2


def normed(x: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b ch h w"]:
    """Every map to mean 0 and variance 1 [Ulyanov+ 2016, eq. 2], then a leaky ReLU."""
    return F.leaky_relu(F.instance_norm(x), SLOPE)


class DoubleConvolution(nn.Module):
    """Twice: 3x3 without a bias, which the norm would take away again, instance norm, leaky ReLU  [Zbontar+ 2018, section 6.2]."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)

    def forward(self, x: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b out h w"]:
        return normed(self.second(normed(self.first(x))))


class TransposedConvolution(nn.Module):
    """2x2 with a stride of 2, each pixel to four of its own; instance norm, leaky ReLU."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.enlarge = nn.ConvTranspose2d(in_channels, out_channels, 2, stride=2, bias=False)

    def forward(self, x: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b out h2 w2"]:
        return normed(self.enlarge(x))


MOST_LEVELS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class UNetConfig:
    """Everything that tells one U-Net from another."""

    width: int = 32  # channels at full resolution; twice as many at each level below
    levels: int = 4  # how often the resolution is halved
    in_channels: int = 3
    out_channels: int = 3
    scale: int = 1  # above 1 the image is enlarged bicubically first
    residual: bool = True  # the output is added to the input; False: as published
    degradation: str | None = None  # what it learned to undo


class UNet(Restorer):
    """[Ronneberger+ 2015, fig. 1] as in [Zbontar+ 2018, section 6.2]: going down, two convolutions and a mean over 2x2; going up, a
    transposed convolution, the maps of the same level from the way down beside it, and two convolutions. Handed its parts.

    Instance norms take their mean over the whole image, so that every output pixel depends on all of it.
    """

    architecture = "unet"
    tokenizer = None
    last_layer = "last"

    def __init__(
        self,
        *,
        down: Sequence[nn.Module],
        middle: nn.Module,
        up: Sequence[nn.Module],
        joined: Sequence[nn.Module],
        last: nn.Module,
        config: UNetConfig,
    ) -> None:
        super().__init__(config)
        self.down, self.middle, self.last = nn.ModuleList(down), middle, last
        self.up, self.joined = nn.ModuleList(up), nn.ModuleList(joined)
        self.first_layer = "down.0.first"
        self.tile_step = step_of_tiles(1 << config.levels, config.scale)

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b out h2 w2"]:
        self.check_images(images)
        images = self.enlarge(images)
        # Two cells at the lowest level: a norm over a single one would leave nothing.
        x = mirror_to_multiple(images, 1 << self.config.levels, least=2)
        passed = []
        for block in self.down:
            passed.append(x := block(x))
            x = F.avg_pool2d(x, 2)
        x = self.middle(x)
        for enlarge, block in zip(self.up, self.joined, strict=True):
            x = block(torch.cat([enlarge(x), passed.pop()], dim=1))
        x = self.last(x)[..., : images.shape[2], : images.shape[3]]
        return images + x if self.config.residual else x


def build_unet(config: UNetConfig) -> UNet:
    """The parts that a config names, put together."""
    check_restorer_config(config, residual=config.residual)
    if config.width < 1 or not 1 <= config.levels <= MOST_LEVELS:
        raise VitrailError(
            f"width must be at least 1 and levels from 1 to {MOST_LEVELS}: got width {config.width}, levels {config.levels}"
        )
    widths = [config.width << level for level in range(config.levels)]
    upwards = widths[::-1]
    last = nn.Conv2d(config.width, config.out_channels, 1)
    if config.residual:  # begins as the (enlarged) input
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]  # it has one
    return UNet(
        down=[DoubleConvolution(before, width) for before, width in zip([config.in_channels, *widths], widths, strict=False)],
        middle=DoubleConvolution(widths[-1], 2 * widths[-1]),
        up=[TransposedConvolution(2 * width, width) for width in upwards],
        joined=[DoubleConvolution(2 * width, width) for width in upwards],
        last=last,
        config=config,
    )


PRESETS = MappingProxyType(
    {
        "unet_nano": UNetConfig(width=8, levels=3),
        "unet_tiny": UNetConfig(width=16, levels=3),
        "unet_small": UNetConfig(width=32, levels=3),
        "unet_fastmri": replace(UNetConfig(in_channels=1, out_channels=1), residual=False),  # [Zbontar+ 2018, section 6.2]
    }
)
