"""Fixed sine and cosine positions of shares: the same from one side of a picture to the other, however many cells lie between.

b batch, c cells, a axes, n boxes, k numbers of a place, d width
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.nn.functional.sinusoid import sinusoid
from vitrail.nn.positions.added import AddedPosition
from vitrail.tokens import Places


class NormalizedSinusoidal(AddedPosition):
    """sin and cos of 2 pi (i + shift) / n for cell i of n, each axis by itself, side by side  [Carion+ 2020, A.4 and published code].

    Published: shift 1, so that the last cell is at 2 pi, and a base of 10,000. A shift of 1/2 is the middle of the cell, where a box's
    center is; a base of 20 [Liu+ 2022, DAB-DETR, section 4.4] spends fewer of the numbers on what hardly changes over a picture.
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
