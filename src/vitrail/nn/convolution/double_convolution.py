"""The two building blocks of a U-Net.

b batch, ch channels in, out channels out, h w sides, h2 w2 twice as large
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

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
