"""ALiBi: attention fades with distance, at a fixed rate for each head.

b batch, h heads, n queries, m keys, d key width
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from vitrail.nn.functional.slopes import alibi_slopes
from vitrail.nn.positions.position import Position
from vitrail.scope import Scope
from vitrail.tokens import Places


class Alibi(Position):
    """bias_ij = -slope_h · |x_i - x_j|  [Press+ 2022, section 3]: on a line the difference of raster numbers.

    Both ways, since a picture has no past. On a grid the distance is Euclidean, in cells [Fuller+ 2023, CROMA, 2D-ALiBi].
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
