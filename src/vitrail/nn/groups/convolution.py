"""Group convolutions: from images to maps over a group, from such maps to others, and to tokens.

b batch, ch channels in, c channels out (in filters: cells of a filter, s times s), g elements, h w image or grid, s side of a filter, d width
"""

from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.groups.group import PlaneGroup
from vitrail.tokens import Grid, Tokens


@lru_cache
def acting(group: PlaneGroup, side: int) -> Float[np.ndarray, "g c c"]:
    """acting[g] · w = L_g w, the filter w(g^-1·p) read off w by bilinear interpolation, 0 outside of it.

    For quarter turns and mirroring it is a permutation of the cells, so nothing is interpolated; between them the matrices still
    commute with those that are, which keeps the exact elements exact.
    """
    places = np.arange(side) - (side - 1) / 2
    cells = np.stack(np.meshgrid(places, places, indexing="ij"), axis=-1).reshape(-1, 2)  # c 2
    seen = group.act_on_offsets(cells)  # g c 2
    near = 1.0 - np.abs(seen[:, :, None] - cells[None, None])  # g c c 2: a hat of width 1 on each axis
    return np.clip(near, 0.0, None).prod(axis=-1)


def act_on_filters(group: PlaneGroup, weight: Float[Tensor, "... s s"]) -> Float[Tensor, "g ... s s"]:
    """One filter to its copies, one an element: a single matrix product, through which gradients add up in the one filter."""
    side = weight.shape[-1]
    matrices = torch.from_numpy(acting(group, side)).to(weight)  # g c c
    copies = torch.einsum("gpc,...c->g...p", matrices, weight.flatten(-2))
    return copies.reshape(*copies.shape[:-1], side, side)


class LiftingConvolution(nn.Module):
    """(x * w)(p, h) = Σ_q x(q) w(h^-1·(q - p))  [Cohen+ 2016, eq. 10]: one learned filter, moved by every element h.

    With `stride` p and `overlap` o the filter has the side p + 2·o and the border o, so that patches lie the same way from all
    four sides: stride 1 and overlap 1 are a 3x3 convolution, overlap 0 cuts images into patches.
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
            raise VitrailError(f"the image's sides must be multiples of the patch {self.stride}, got {size[0]}x{size[1]}")
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


class LiftingPatches(nn.Module):
    """x_p E_h: each patch times one matrix as every element h sees it, the patch projection of [Dosovitskiy+ 2021, eq. 1] lifted.

    Cheaper than a lifting attention between pixels. Patches may overlap by `overlap` pixels on every side.
    """

    def __init__(self, in_channels: int, width: int, *, group: PlaneGroup, patch: int, overlap: int = 0) -> None:
        super().__init__()
        self.project = LiftingConvolution(in_channels, width, group=group, stride=patch, overlap=overlap)

    def grid(self, size: tuple[int, int]) -> Grid:
        return self.project.grid(size)

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        return maps_to_tokens(self.project(images), self.project.group)


class RepeatedPixels(nn.Module):
    """W x, the same at every element: what a lifting attention starts from."""

    def __init__(self, in_channels: int, width: int, *, group: PlaneGroup) -> None:
        super().__init__()
        self.group = group
        self.project = nn.Linear(in_channels, width)

    def grid(self, size: tuple[int, int]) -> Grid:
        self.group.check_grid(*size)
        return (self.group.order, *size)

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        grid = self.grid((images.shape[2], images.shape[3]))
        pixels = self.project(images.flatten(2).transpose(1, 2))  # b (h w) d
        return Tokens(pixels.repeat(1, self.group.order, 1), grid=grid)
