"""ALiBi: attention fades with distance, at a fixed rate for each head.

b batch, h heads, n queries, m keys, d key width
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from vitrail.nn.positions.position import Position
from vitrail.scope import Scope
from vitrail.tokens import Places


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8/h), 2^(-16/h), ..., 2^-8 for h a power of two  [Press+ 2022, section 3].

    For another h, as in the authors' code: those of the next lower power, then every other one of the next higher power.
    """
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    return slopes + [2 ** (-4 * (2 * i + 1) / power) for i in range(heads - power)]


class Alibi(Position):
    """bias_ij = -slope_h · |x_i - x_j|  [Press+ 2022, section 3]: on a line the difference of raster numbers.

    Both ways, since an image has no past. On a grid the distance is Euclidean, in cells [Fuller+ 2023, CROMA, 2D-ALiBi].
    No parameters. No bias to and from prefix tokens. Extrapolates to any grid of any number of axes.
    """

    attends = biases = True

    def __init__(self, heads: int, *, line: bool = False) -> None:
        super().__init__()
        self.slopes, self.line = alibi_slopes(heads), line

    def prepare(self, queries: Places, keys: Places, device: torch.device | None = None) -> Float[Tensor, "#b h n m"]:
        here, there = ((p.line() if self.line else p).coordinates(device) for p in (queries, keys))  # b|1 n a, b|1 m a
        squares = sum((here[:, :, None, axis] - there[:, None, :, axis]).square() for axis in range(here.shape[-1]))
        assert isinstance(squares, Tensor)
        distance = pad(squares.to(torch.float32).sqrt(), (keys.prefix, 0, queries.prefix, 0))  # b|1 n m
        return distance[:, None] * -torch.tensor(self.slopes, device=device)[:, None, None]

    def bias(self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope) -> Float[Tensor, "#b #h n m"]:
        return scope.prepared.to(q.dtype)
