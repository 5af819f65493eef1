"""A tokenizer of residual blocks, for photographs: each stage halves the image, the cells of the last map are the tokens.

b batch, ch channels, h w image, f channels of a fine map, y x its grid, d width
"""

import itertools
import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.tokens import Grid, Tokens

StemNorm = Literal["batch", "group", "layer"]
GROUP = 16  # channels that a group normalization takes together


def stem_norm(kind: StemNorm, channels: int) -> nn.BatchNorm2d | nn.GroupNorm:
    """batch: over the batch, and over what training saw in evaluation; group and layer: over one image, the same at every size."""
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(1 if kind == "layer" else max(1, channels // GROUP), channels)


class StemBlock(nn.Module):
    """relu(x + f(x)), f: 3x3 convolution, norm, ReLU, 3x3 convolution, norm  [He+ 2016, fig. 2]."""

    def __init__(self, channels: int, *, norm: StemNorm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = stem_norm(norm, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = stem_norm(norm, channels)
        for convolution in (self.conv1, self.conv2):
            nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
        nn.init.zeros_(self.norm2.weight)  # a new block passes on what it reads

    def forward(self, x: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b ch h w"]:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(y)))


class Halving(nn.Sequential):
    """3x3 convolution of stride two, norm, ReLU; odd sides are rounded up."""

    def __init__(self, before: int, after: int, *, norm: StemNorm) -> None:
        convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
        super().__init__(convolution, stem_norm(norm, after), nn.ReLU())


class ResidualTokenizer(nn.Module):
    """Stages of a small residual network; stage i halves the image and has `depths[i]` blocks of `widths[i]` channels.

    The last stage has the width of the tokens. The stem sees edges and textures with few multiplications, where a plain
    ViT needs millions of images to learn them; attention then joins the parts  [Graham+ 2021, LeViT; Xiao+ 2021].
    """

    def __init__(
        self,
        in_channels: int,
        width: int,
        *,
        widths: tuple[int, ...] = (32, 64, 128),
        depths: tuple[int, ...] = (1, 1, 2, 1),
        norm: StemNorm = "group",
    ) -> None:
        super().__init__()
        if len(depths) != len(widths) + 1 or min(depths) < 0 or min(widths, default=1) < 1:
            raise VitrailError(
                f"a residual tokenizer needs a depth for each stage, one more than widths: got depths {depths}, widths {widths}"
            )
        self.in_channels, self.stride = in_channels, 2 ** len(depths)
        channels = (in_channels, *widths, width)
        self.stages = nn.Sequential(
            *(
                nn.Sequential(Halving(before, after, norm=norm), *(StemBlock(after, norm=norm) for _ in range(depth)))
                for (before, after), depth in zip(itertools.pairwise(channels), depths, strict=True)
            )
        )
        self.fine_end = min(2, len(depths))  # stages before the fine map, whose cells have at most four pixels
        self.fine_width = channels[self.fine_end]

    def grid(self, size: tuple[int, ...]) -> Grid:
        if min(size) < self.stride:
            raise VitrailError(f"the image {size[0]}x{size[1]} is smaller than the tokenizer's stride {self.stride}")
        return tuple(math.ceil(side / self.stride) for side in size)

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        return self.forward_fine(images)[1]

    def forward_fine(self, images: Float[Tensor, "b ch h w"]) -> tuple[Float[Tensor, "b f y x"], Tokens]:
        """The map of the second stage, and the tokens."""
        fine = self.stages[: self.fine_end](images.contiguous(memory_format=torch.channels_last))
        maps = self.stages[self.fine_end :](fine)  # b d gh gw
        return fine, Tokens(maps.flatten(2).transpose(1, 2), grid=tuple(maps.shape[2:]))
