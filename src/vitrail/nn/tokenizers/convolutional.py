"""A tokenizer of small convolutions, for small pictures and small data.

b batch, ch channels, n tokens, d width
"""

import itertools
import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.tokens import Grid, Tokens

Pooling = Literal["overlapping", "early"]


class ConvTokenizer(nn.Module):
    """3x3 convolution, batch norm, ReLU, again and again; the last of them each halve the picture by max-pooling.

    [Hassani+ 2021, section 3.3]: overlapping convolutions give the locality that a cut into patches throws away, and
    which a small data set cannot teach. Batch norm is ours, and trains in a fraction of the time; so is pooling late, so that
    the first convolutions see every pixel (docs/log.md has the trial). Any picture size will do: a side that does not divide is
    rounded up.

    Pooling is "overlapping", 3x3 and behind the ReLU as in the paper, or "early", 2x2 and right behind the convolution, which
    leaves a quarter of the numbers to norm and ReLU and takes half the time.
    """

    def __init__(self, in_channels: int, width: int, *, stride: int, layers: int = 3, pooling: Pooling = "overlapping") -> None:
        super().__init__()
        halvings = stride.bit_length() - 1
        if stride < 1 or stride != 1 << halvings:
            raise VitrailError(f"the stride of a convolutional tokenizer must be a power of two, got {stride}")
        self.in_channels, self.stride = in_channels, stride
        depth = max(layers, halvings)
        widths = [in_channels, *(max(width >> (depth - 1 - i), min(32, width)) for i in range(depth))]
        stages: list[nn.Module] = []
        for i, (before, after) in enumerate(itertools.pairwise(widths)):
            convolution = nn.Conv2d(before, after, 3, padding=1, bias=False)
            nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
            rest: list[nn.Module] = [nn.BatchNorm2d(after), nn.ReLU()]
            if i >= depth - halvings:
                rest = [nn.MaxPool2d(2, ceil_mode=True), *rest] if pooling == "early" else [*rest, nn.MaxPool2d(3, 2, 1)]
            stages += [convolution, *rest]
        self.stages = nn.Sequential(*stages)

    def grid(self, size: tuple[int, ...]) -> Grid:
        if min(size) < self.stride:
            raise VitrailError(f"the picture {size[0]}x{size[1]} is smaller than the tokenizer's stride {self.stride}")
        return tuple(math.ceil(side / self.stride) for side in size)

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        # Channels last in memory: convolutions and pooling take half the time, on CPUs too.
        maps = self.stages(images.contiguous(memory_format=torch.channels_last))  # b d gh gw
        return Tokens(maps.flatten(2).transpose(1, 2), grid=tuple(maps.shape[2:]))
