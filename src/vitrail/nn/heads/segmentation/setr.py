"""SETR's three decoders: from the maps of a Vision Transformer to scores of every class on a finer grid  [Zheng+ 2021, section 3.2].

b batch, d width, k classes, h w grid, y x a finer one

A linear map of channels and an interpolation over places may change their order without a change of the outcome, as the weights of the
interpolation sum to one. So the classes are scored before the last enlargement, on few channels instead of many.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.functional.maps import stretch
from vitrail.nn.heads.segmentation.normed_convolution import MapNorm, NormedConvolution

MOST_STEPS = 4  # doublings: from patches of 16 pixels to pixels


class NaiveHead(nn.Module):
    """s = W_2 relu(norm(W_1 z)), both 1x1; what is missing to the image is one bilinear step  [Zheng+ 2021, "Naive upsampling"]."""

    def __init__(self, width: int, *, classes: int, hidden: int, norm: MapNorm) -> None:
        super().__init__()
        self.hidden = NormedConvolution(width, hidden, kernel=1, norm=norm)
        self.output = nn.Conv2d(hidden, classes, 1)

    def forward(self, maps: Sequence[Float[Tensor, "b _ _ _"]]) -> Float[Tensor, "b k h w"]:
        return self.output(self.hidden(maps[-1]))


class ProgressiveHead(nn.Module):
    """Four times, or as often as the stride has a factor of two: relu(norm(3x3 conv)), then twice as large  [Zheng+ 2021, "PUP", fig. 1b].

    The map that comes out lacks the last doubling, which whoever stretches it to the image makes.
    """

    def __init__(self, width: int, *, classes: int, hidden: int, stride: int, norm: MapNorm) -> None:
        super().__init__()
        steps = max(1, min(MOST_STEPS, stride.bit_length() - 1))
        self.steps = nn.ModuleList(NormedConvolution(width if not step else hidden, hidden, norm=norm) for step in range(steps))
        self.output = nn.Conv2d(hidden, classes, 1)

    def forward(self, maps: Sequence[Float[Tensor, "b _ _ _"]]) -> Float[Tensor, "b k y x"]:
        x = self.steps[0](maps[-1])
        for step in self.steps[1:]:
            x = step(stretch(x, (2 * x.shape[2], 2 * x.shape[3])))
        return self.output(x)


class AggregatingHead(nn.Module):
    """Streams of several layers, each helped by the deeper ones, side by side  [Zheng+ 2021, "MLA", fig. 1c].

    t_i = relu(norm(1x1 z_i)) + t_{i+1},  u_i = 3x3(3x3(3x3(t_i))) with norm and ReLU each, the last to half the channels,
    s = W [u_1; ...; u_n], four times as large. Maps on grids of their own, of stages, are stretched to the finer one.
    """

    def __init__(self, widths: Sequence[int], *, classes: int, hidden: int, norm: MapNorm) -> None:
        super().__init__()
        half = max(1, hidden // 2)
        self.enter = nn.ModuleList(NormedConvolution(width, hidden, kernel=1, norm=norm) for width in widths)
        self.streams = nn.ModuleList(
            nn.Sequential(*(NormedConvolution(before, after, norm=norm) for before, after in ((hidden, hidden), (hidden, half), (half, half))))
            for _ in widths
        )  # fmt: skip
        self.output = nn.Conv2d(half * len(widths), classes, 1)

    def forward(self, maps: Sequence[Float[Tensor, "b _ _ _"]]) -> Float[Tensor, "b k y x"]:
        height, width = maps[0].shape[2:]
        sums: list[Tensor] = []
        for enter, found in zip(reversed(self.enter), reversed(maps), strict=True):
            t = enter(found)
            sums.insert(0, t if not sums else t + stretch(sums[0], (t.shape[2], t.shape[3])))
        streams = [stretch(stream(t), (height, width)) for stream, t in zip(self.streams, sums, strict=True)]
        return stretch(self.output(torch.cat(streams, dim=1)), (4 * height, 4 * width))
