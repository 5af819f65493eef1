"""Group convolutions: from pictures to maps over a group, and from such maps to others.

b batch, ch channels in, c channels out, g elements, h w picture or grid, s side of a filter
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.groups.acted import act_on_filters
from vitrail.nn.groups.group import PlaneGroup
from vitrail.tokens import Grid, Tokens


class LiftingConvolution(nn.Module):
    """(x * w)(p, h) = Σ_q x(q) w(h^-1·(q - p))  [Cohen+ 2016, eq. 10]: one learned filter, moved by every element h.

    With `stride` p and `overlap` o the filter has the side p + 2·o and the border o, so that patches lie the same way from all
    four sides: stride 1 and overlap 1 are a 3x3 convolution, overlap 0 cuts pictures into patches.
    """

    def __init__(self, in_channels: int, width: int, *, group: PlaneGroup, stride: int = 1, overlap: int = 0) -> None:
        super().__init__()
        if stride < 1 or overlap < 0:
            raise VitrailError(f"a patch must be at least 1 and its overlap at least 0, got {stride} and {overlap}")
        self.group, self.stride, self.overlap = group, stride, overlap
        side = stride + 2 * overlap
        self.weight = nn.Parameter(torch.empty(width, in_channels, side, side))
        self.bias = nn.Parameter(torch.zeros(width))
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")

    def grid(self, size: tuple[int, int]) -> Grid:
        self.group.check_grid(*size)
        if min(size) < self.stride or any(side % self.stride for side in size):
            raise VitrailError(f"the picture's sides must be multiples of the patch {self.stride}, got {size[0]}x{size[1]}")
        return (self.group.order, *(side // self.stride for side in size))

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b gc h1 w1"]:
        """Maps with the elements' channels one after another."""
        self.grid((images.shape[2], images.shape[3]))
        weight = act_on_filters(self.group, self.weight).flatten(0, 1)  # (g c) ch s s
        images = images.contiguous(memory_format=torch.channels_last)  # half the time, on CPUs too
        return F.conv2d(images, weight, self.bias.repeat(self.group.order), self.stride, self.overlap)


class GroupConvolution(nn.Module):
    """(f * w)(p, h) = Σ_q Σ_k f(q, k) w(h^-1·(q - p), h^-1·k)  [Cohen+ 2016, eq. 11], as one ordinary convolution.

    The filter is a function on the group too: h moves its cells and permutes its elements. No bias: a norm follows.
    """

    def __init__(self, in_channels: int, width: int, *, group: PlaneGroup, side: int = 3) -> None:
        super().__init__()
        if side % 2 == 0:
            raise VitrailError(f"the side of a group convolution's filter must be odd, got {side}")
        self.group, self.side = group, side
        self.weight = nn.Parameter(torch.empty(width, in_channels, group.order, side, side))
        nn.init.normal_(self.weight, std=(2.0 / (in_channels * group.order * side * side)) ** 0.5)

    def forward(self, maps: Float[Tensor, "b gch h w"]) -> Float[Tensor, "b gc h w"]:
        self.group.check_grid(maps.shape[2], maps.shape[3], what="the grid")
        copies = act_on_filters(self.group, self.weight)  # h c ch k s s
        order = self.group.order
        relative = torch.from_numpy(self.group.relative()).to(maps.device)  # h k -> h^-1 k
        index = relative[:, None, None, :, None, None].expand(-1, *copies.shape[1:3], -1, *copies.shape[4:])
        copies = copies.gather(3, index).transpose(2, 3)  # h c k ch s s
        weight = copies.reshape(order * copies.shape[1], -1, self.side, self.side)
        return F.conv2d(maps, weight, padding=self.side // 2)


class GroupNormalization(nn.Module):
    """Batch norm whose mean, variance, scale and shift are shared by all elements of the group  [Cohen+ 2016, section 6.3]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(width)

    def forward(self, maps: Float[Tensor, "b gc h w"]) -> Float[Tensor, "b gc h w"]:
        batch, channels, height, width = maps.shape
        last = maps.permute(0, 2, 3, 1).reshape(batch, height, -1, self.norm.num_features)  # b h (w g) c
        last = self.norm(last.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return last.reshape(batch, height, width, channels).permute(0, 3, 1, 2)


def maps_to_tokens(maps: Float[Tensor, "b gc h w"], group: PlaneGroup) -> Tokens:
    """Maps over the group as tokens on the grid (elements, rows, columns)."""
    batch, channels, height, width = maps.shape
    parts = maps.reshape(batch, group.order, channels // group.order, height, width).permute(0, 1, 3, 4, 2)  # b g h w c
    return Tokens(parts.flatten(1, 3), grid=tuple(parts.shape[1:4]))


def tokens_to_maps(tokens: Tokens) -> Float[Tensor, "b g c h w"]:
    """The inverse, elements apart: what a group acts on."""
    return tokens.x.reshape(len(tokens.x), *tokens.grid, -1).permute(0, 1, 4, 2, 3)
