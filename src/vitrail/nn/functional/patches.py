"""Cut an image, clip or volume into patches and put it back together; and make an image of whole patches by mirroring it at two edges.

b batch, ch channels, n patches in raster order, p numbers in a patch (channel first, then its own raster), h w image, h2 w2 the larger one
"""

import math

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from vitrail.errors import VitrailError


def check_patches(size: tuple[int, ...], patch: tuple[int, ...]) -> tuple[int, ...]:
    """How many patches along each axis; the sides must be multiples of the patch."""
    if len(size) != len(patch):
        raise VitrailError(f"a patch of {len(patch)} axes {patch} cannot cut an image of {len(size)} axes {size}")
    for side, step in zip(size, patch, strict=True):
        if side < step:
            raise VitrailError(f"the image {_by(size)} is smaller than a patch {_by(patch)}")
        if side % step:
            raise VitrailError(f"the image's sides {_by(size)} must be multiples of the patch {_by(patch)}")
    return tuple(side // step for side, step in zip(size, patch, strict=True))


def patchify(x: Shaped[Tensor, "b ch *size"], patch: tuple[int, ...]) -> Shaped[Tensor, "b n p"]:
    """Unfold: b ch (g0 p0) (g1 p1) ... -> b (g0 g1 ...) (ch p0 p1 ...)  [Dosovitskiy+ 2021, section 3.1]."""
    batch, channels, *size = x.shape
    grid = check_patches(tuple(size), patch)
    axes = len(patch)
    x = x.reshape(batch, channels, *(v for pair in zip(grid, patch, strict=True) for v in pair))  # b ch g0 p0 g1 p1
    x = x.permute(0, *(2 + 2 * i for i in range(axes)), 1, *(3 + 2 * i for i in range(axes)))  # b g0 g1 ch p0 p1
    return x.reshape(batch, math.prod(grid), channels * math.prod(patch))  # b n p


def unpatchify(x: Shaped[Tensor, "b n p"], patch: tuple[int, ...], grid: tuple[int, ...]) -> Shaped[Tensor, "b ch *size"]:
    """The inverse of `patchify`: b (g0 g1 ...) (ch p0 p1 ...) -> b ch (g0 p0) (g1 p1) ..."""
    batch, count, numbers = x.shape
    if count != math.prod(grid) or numbers % math.prod(patch):
        raise VitrailError(f"{count} patches of {numbers} numbers do not fill a grid {_by(grid)} of patches {_by(patch)}")
    axes = len(patch)
    x = x.reshape(batch, *grid, numbers // math.prod(patch), *patch)  # b g0 g1 ch p0 p1
    x = x.permute(0, 1 + axes, *(v for i in range(axes) for v in (1 + i, 2 + axes + i)))  # b ch g0 p0 g1 p1
    return x.reshape(batch, x.shape[1], *(g * p for g, p in zip(grid, patch, strict=True)))


def _by(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


def mirror_to_multiple(x: Float[Tensor, "b ch h w"], multiple: int, *, least: int = 1) -> Float[Tensor, "b ch h2 w2"]:
    """Sides up to the next multiple, and at least `least` of them; the edge itself is repeated, as [Liang+ 2021]'s code has it.

    An image that is smaller than what is added is mirrored again and again: pixel i of n is i mod 2n, from the other end above n.
    """
    for axis in (2, 3):
        side = x.shape[axis]
        larger = max(-(-side // multiple), least) * multiple
        if larger != side:
            place = torch.arange(larger, device=x.device) % (2 * side)
            x = x.index_select(axis, torch.minimum(place, 2 * side - 1 - place))
    return x
