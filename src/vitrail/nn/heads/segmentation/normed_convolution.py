"""What the heads for maps are built of, a convolution, a norm and a ReLU; and the smallest head of them, which helps while a model learns.

b batch, ch channels in, out channels out, d width, k classes, h w map
"""

from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

MapNorm = Literal["batch", "group"]
GROUPS = (32, 16, 8, 4, 2, 1)  # 32 where there are channels enough  [Wu & He 2018, section 4]


class NormedConvolution(nn.Module):
    """relu(norm(W * x)), the size kept. No bias: the norm would take it away again."""

    def __init__(
        self, in_channels: int, out_channels: int, *, kernel: int = 3, groups: int = 1, norm: MapNorm = "batch"
    ) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(in_channels, out_channels, kernel, padding=kernel // 2, groups=groups, bias=False)
        nn.init.kaiming_normal_(self.convolution.weight, nonlinearity="relu")
        self.norm = build_map_norm(norm, out_channels)

    def forward(self, x: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b out h w"]:
        return F.relu(self.norm(self.convolution(x)))


class PatientBatchNorm(nn.BatchNorm2d):
    """Batch norm  [Ioffe and Szegedy 2015, algorithm 1], which goes by what it has seen so far where there is one number a channel: a
    map pooled to one cell, of one image, has no variance."""

    def forward(self, input: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b ch h w"]:
        if self.training and input.shape[0] * input.shape[2] * input.shape[3] == 1:
            return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(input)


def build_map_norm(kind: MapNorm, channels: int) -> nn.Module:
    """`batch`: over the images of a batch, as published. `group`: each image by itself, which does not mind small batches; as many
    groups as divide the channels and leave at least eight to each."""
    if kind == "batch":
        return PatientBatchNorm(channels)
    return nn.GroupNorm(next(g for g in GROUPS if g == 1 or (channels % g == 0 and channels >= 8 * g)), channels)


class FullyConvolutionalHead(nn.Module):
    """s = W_2 relu(norm(3x3 W_1 z))  [Long+ 2015; Zhao+ 2017, section 3.3, for its place: the loss of an earlier layer's answer is added]."""

    def __init__(self, width: int, *, classes: int, hidden: int, norm: MapNorm) -> None:
        super().__init__()
        self.hidden = NormedConvolution(width, hidden, norm=norm)
        self.output = nn.Conv2d(hidden, classes, 1)

    def forward(self, found: Float[Tensor, "b d h w"]) -> Float[Tensor, "b k h w"]:
        return self.output(self.hidden(found))
