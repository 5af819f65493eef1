"""A tokenizer of small convolutions, for small images and small data.

b batch, ch channels, n tokens, d width, f channels of a fine map, y x its grid
"""

import itertools
import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.tokens import Grid, Tokens

FINE = 4  # pixels: the cells of the map that a head for dense answers reads beside the tokens
Pooling = Literal["overlapping", "early", "first"]


class Convolution(NamedTuple):
    """One 3x3 convolution of a tokenizer."""

    before: int  # channels that go in
    after: int  # channels that come out
    halves: bool  # whether max-pooling follows


class LargestOfFour(nn.MaxPool2d):
    """2x2 max-pooling; on even sides as two comparisons of whole rows and columns, a tenth of the time of torch's kernel on CPUs."""

    def forward(self, maps: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b ch y x"]:
        if maps.shape[2] % 2 or maps.shape[3] % 2:
            return super().forward(maps)
        rows = torch.maximum(maps[:, :, ::2], maps[:, :, 1::2])
        return torch.maximum(rows[..., ::2], rows[..., 1::2])


def halving(pooling: Pooling) -> nn.Module:
    """The 2x2 pooling. Where two are equal, which the gradient goes to differs: "early" stays with what its records were made with."""
    return (LargestOfFour if pooling == "first" else nn.MaxPool2d)(2, ceil_mode=True)


class ConvTokenizer(nn.Module):
    """3x3 convolution, batch norm, ReLU, again and again, with max-pooling that halves the image.

    [Hassani+ 2021, section 3.3]: overlapping convolutions give the locality that a cut into patches throws away, and
    which a small dataset cannot teach. Batch norm is ours, and trains in a fraction of the time. Any image size will do: a
    side that does not divide is rounded up. Where the poolings stand, see `plan_convolutions`; "overlapping" ones are 3x3 and
    behind the ReLU as in the paper, "early" and "first" ones 2x2 and right behind the convolution, which leaves a quarter of the numbers to
    norm and ReLU and takes half the time.
    """

    def __init__(self, in_channels: int, width: int, *, stride: int, layers: int = 3, pooling: Pooling = "overlapping") -> None:
        super().__init__()
        self.in_channels, self.stride = in_channels, stride
        stages: list[nn.Module] = []
        self.fine_width, self.fine_end, step = in_channels, 0, 1  # of the map that `forward_fine` gives
        for before, after, halves in plan_convolutions(in_channels, width, stride=stride, layers=layers, pooling=pooling):
            convolution = nn.Conv2d(before, after, 3, padding=1, bias=False)
            nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
            rest: list[nn.Module] = [nn.BatchNorm2d(after), nn.ReLU()]
            if halves:
                rest = [*rest, nn.MaxPool2d(3, 2, 1)] if pooling == "overlapping" else [halving(pooling), *rest]
            stages += [convolution, *rest]
            step *= 1 + halves
            if step <= fine_stride(stride):
                self.fine_width, self.fine_end = after, len(stages)
        self.stages = nn.Sequential(*stages)

    def grid(self, size: tuple[int, ...]) -> Grid:
        if min(size) < self.stride:
            raise VitrailError(f"the image {size[0]}x{size[1]} is smaller than the tokenizer's stride {self.stride}")
        return tuple(math.ceil(side / self.stride) for side in size)

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        # Channels last in memory: convolutions and pooling take half the time, on CPUs too.
        maps = self.stages(images.contiguous(memory_format=torch.channels_last))  # b d gh gw
        return Tokens(maps.flatten(2).transpose(1, 2), grid=tuple(maps.shape[2:]))

    def forward_fine(self, images: Float[Tensor, "b ch h w"]) -> tuple[Float[Tensor, "b f y x"], Tokens]:
        """A map from within, of cells of at most four pixels and at most half a token, and the tokens."""
        fine = self.stages[: self.fine_end](images.contiguous(memory_format=torch.channels_last))
        maps = self.stages[self.fine_end :](fine)  # b d gh gw
        return fine, Tokens(maps.flatten(2).transpose(1, 2), grid=tuple(maps.shape[2:]))


def fine_stride(stride: int) -> int:
    """Pixels from one cell of the fine map to the next, at most."""
    return max(1, min(FINE, stride // 2))


def plan_convolutions(in_channels: int, width: int, *, stride: int, layers: int, pooling: Pooling) -> list[Convolution]:
    """The convolutions in their order: `layers` of them, or one for each halving if that is more.

    - "overlapping": the last ones halve, so that the first see every pixel (docs/log.md has the trial); each has twice the
      channels of the one before.
    - "early": the image is halved from the first on, where pixels are many and channels few; what there is beyond one
      convolution a halving stands before the last halvings. Each halving doubles the channels.
    - "first": the first ones halve, and the others see the grid of the tokens, which is where a stem of a small stride is cheap.
    """
    halvings = stride.bit_length() - 1
    if stride < 1 or stride != 1 << halvings:
        raise VitrailError(f"the stride of a convolutional tokenizer must be a power of two, got {stride}")
    depth, steps = max(layers, halvings, 1), max(1, halvings)
    if pooling == "early":
        counts = [(depth + step) // steps for step in range(steps)]  # of each step; the last have one more
        doublings = [steps - 1 - step for step, count in enumerate(counts) for _ in range(count)]
        ends = {sum(counts[: step + 1]) - 1 for step in range(halvings)}
    elif pooling == "first":
        doublings, ends = [max(0, halvings - 1 - i) for i in range(depth)], set(range(halvings))
    else:
        doublings, ends = [depth - 1 - i for i in range(depth)], set(range(depth - halvings, depth))
    widths = [in_channels, *(max(width >> times, min(32, width)) for times in doublings)]
    return [Convolution(before, after, i in ends) for i, (before, after) in enumerate(itertools.pairwise(widths))]
