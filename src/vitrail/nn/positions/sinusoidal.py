"""Fixed sine and cosine positions: on a line, on a grid, or as shares of an image's sides.

b batch, c cells or places, a axes, n boxes, k numbers of a place, d width
"""

import math
from typing import Literal

import torch
from jaxtyping import Float, Real
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.nn.positions.added import AddedPosition
from vitrail.tokens import Places

Layout = Literal["interleaved", "concatenated"]


def sinusoid(
    place: Real[Tensor, "*c"], width: int, *, layout: Layout = "interleaved", base: float = 10_000.0
) -> Float[Tensor, "*c d"]:
    """sin(x · base^(-2i/d)), cos(x · base^(-2i/d)) for i < d/2  [Vaswani+ 2017, section 3.5].

    `interleaved` sets sin, cos, sin, cos, ... as the paper's equation has it; `concatenated` all sines, then all cosines.
    """
    if width % 2:
        raise VitrailError(f"a sinusoid needs an even width, got {width}")
    rates = base ** (-torch.arange(0, width, 2, device=place.device, dtype=torch.float32) / width)  # d/2
    angles = place.to(torch.float32)[..., None] * rates
    pair = (angles.sin(), angles.cos())
    return torch.stack(pair, dim=-1).flatten(-2) if layout == "interleaved" else torch.cat(pair, dim=-1)


class Sinusoidal1d(AddedPosition):
    """The token's number in raster order, as sines and cosines  [Vaswani+ 2017, section 3.5]. Extrapolates to any grid."""

    def __init__(self, width: int, *, prefix: int = 0, layout: Layout = "interleaved") -> None:
        super().__init__(width, prefix=prefix)
        if width % 2:
            raise VitrailError(f"a sinusoidal position needs an even width, got {width}")
        self.layout: Layout = layout

    def rows(self, places: Places, device: torch.device) -> Float[Tensor, "#b c d"]:
        return sinusoid(places.line().coordinates(device)[..., 0], self.width, layout=self.layout)


class Sinusoidal2d(AddedPosition):
    """Each axis has an equal share of the width, coded by itself, side by side  [Carion+ 2020, appendix A.4].

    On a grid of one or three axes the same rule holds: the width is shared among the axes there are. Extrapolates to any
    size of them.
    """

    def __init__(self, width: int, *, axes: int = 2, prefix: int = 0, layout: Layout = "interleaved") -> None:
        super().__init__(width, prefix=prefix)
        if width % (2 * axes):
            raise VitrailError(
                f"a sinusoidal position on {axes} axes needs a width that is a multiple of {2 * axes}, got {width}"
            )
        self.axes, self.layout = axes, layout

    def rows(self, places: Places, device: torch.device) -> Float[Tensor, "#b c d"]:
        coordinates = places.coordinates(device)
        if coordinates.shape[-1] != self.axes:
            raise VitrailError(f"this position was built for {self.axes} axes, the grid {places.grid} has {len(places.grid)}")
        return sinusoid(coordinates, self.width // self.axes, layout=self.layout).flatten(-2)  # b|1 c a d/a -> b|1 c d


class NormalizedSinusoidal(AddedPosition):
    """sin and cos of 2 pi (i + shift) / n for cell i of n, each axis by itself, side by side  [Carion+ 2020, A.4 and published code]: the same
    from one side of an image to the other, however many cells lie between.

    Published: shift 1, so that the last cell is at 2 pi, and a base of 10,000. A shift of 1/2 is the middle of the cell, where a box's
    center is; a base of 20 [Liu+ 2022, DAB-DETR, section 4.4] spends fewer of the numbers on what hardly changes over an image.
    """

    def __init__(self, width: int, *, axes: int = 2, base: float = 10_000.0, shift: float = 1.0) -> None:
        super().__init__(width)
        if width % (2 * axes):
            raise VitrailError(
                f"a sinusoidal position on {axes} axes needs a width that is a multiple of {2 * axes}, got {width}"
            )
        self.axes, self.base, self.shift = axes, base, shift

    def rows(self, places: Places, device: torch.device) -> Float[Tensor, "#b c d"]:
        sizes = torch.tensor(places.grid, dtype=torch.float32, device=device)
        shares = (places.coordinates(device) + self.shift) / sizes  # b|1 c a
        return code_shares(shares, self.width // self.axes, base=self.base)


def code_shares(shares: Float[Tensor, "*n k"], width: int, *, base: float) -> Float[Tensor, "*n d"]:
    """Sines and cosines of 2 pi times each of k shares, `width` numbers for each: d = k · width."""
    return sinusoid(2 * math.pi * shares, width, base=base).flatten(-2)
