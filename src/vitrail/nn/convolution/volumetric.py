"""The building blocks of UNETR's decoder: residual convolutions of volumes, and enlargements by 2.

b batch, ch channels in, out channels out, x y z sides, x2 y2 z2 twice as large
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

SLOPE = 0.01
EPS = 1e-5  # torch's, of instance norms


class ResidualVolume(nn.Module):
    """lrelu(norm(W_2 * lrelu(norm(W_1 * x))) + s(x)), 3x3x3 each, instance norm; s is the identity, or norm(W_s x) where the channels
    change  [Hatamizadeh+ 2022, fig. 2; MONAI's residual block]. Without biases, which the norms would take away again."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = nn.Conv3d(in_channels, out_channels, 3, padding=1, bias=False)
        self.second = nn.Conv3d(out_channels, out_channels, 3, padding=1, bias=False)
        self.short = nn.Conv3d(in_channels, out_channels, 1, bias=False) if in_channels != out_channels else None

    def forward(self, volume: Float[Tensor, "b ch x y z"]) -> Float[Tensor, "b out x y z"]:
        found = norm(self.second(F.leaky_relu(norm(self.first(volume)), SLOPE)))
        return F.leaky_relu(found + (volume if self.short is None else norm(self.short(volume))), SLOPE)


class Enlarging(nn.Sequential):
    """Tokens' maps made 2^n times larger: a transposed convolution, then n - 1 times another one and a residual block."""

    def __init__(self, in_channels: int, out_channels: int, *, steps: int) -> None:
        parts: list[nn.Module] = [doubling(in_channels, out_channels)]
        for _ in range(steps - 1):
            parts += [doubling(out_channels, out_channels), ResidualVolume(out_channels, out_channels)]
        super().__init__(*parts)


class Joining(nn.Module):
    """Twice as large, the maps of that size from the encoder beside it, and a residual block."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.enlarge = doubling(in_channels, out_channels)
        self.block = ResidualVolume(2 * out_channels, out_channels)

    def forward(
        self, below: Float[Tensor, "b ch x y z"], beside: Float[Tensor, "b out x2 y2 z2"]
    ) -> Float[Tensor, "b out x2 y2 z2"]:
        return self.block(torch.cat([self.enlarge(below), beside], dim=1))


def doubling(in_channels: int, out_channels: int) -> nn.ConvTranspose3d:
    """Each voxel to eight of its own."""
    return nn.ConvTranspose3d(in_channels, out_channels, 2, stride=2, bias=False)


def norm(volume: Float[Tensor, "b ch x y z"]) -> Float[Tensor, "b ch x y z"]:
    """Every map to mean 0 and variance 1  [Ulyanov+ 2016, eq. 2]; a map of one voxel, which has no variance, stays as it is."""
    if not has_many(volume.shape[2:]):
        return volume
    return spelled_norm(volume) if torch.compiler.is_compiling() else F.instance_norm(volume)


def spelled_norm(volume: Float[Tensor, "b ch x y z"]) -> Float[Tensor, "b ch x y z"]:
    """The same in plain arithmetic, for programs of other runtimes, with means axis by axis: where tens of thousands of numbers are added
    up one by one, as ONNX Runtime does it, the answers of a UNETR are off by 4e-4."""
    centered = volume - mean_of(volume)
    return centered * torch.rsqrt(mean_of(centered.square()) + EPS)


def mean_of(volume: Float[Tensor, "b ch x y z"]) -> Float[Tensor, "b ch 1 1 1"]:
    return volume.mean(4, keepdim=True).mean(3, keepdim=True).mean(2, keepdim=True)


def has_many(sides: Sequence[int]) -> bool:
    return any(side > 1 for side in sides)
