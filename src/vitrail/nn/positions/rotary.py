"""Rotary positions: queries and keys are turned, so that their product knows how far apart they stand.

b batch, h heads, n queries, m keys, c cells, a axes, p = d / 2 pairs of channels, d key width
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from vitrail.errors import VitrailError
from vitrail.nn.positions.position import Position
from vitrail.scope import Scope
from vitrail.tokens import Places


def rotary_angles(coordinates: Int[Tensor, "b c a"], width: int, *, base: float) -> Float[Tensor, "b c p"]:
    """The angle of each pair: coordinate · base^(-t/s) for the t-th of an axis' s = floor(p / a) pairs.

    One axis: [Su+ 2021, RoFormer, eq. 15]. Several: axial, each axis turns pairs of its own [Heo+ 2024, RoPE-ViT].
    Pairs left over, where p is no multiple of a, are not turned.
    """
    share = pairs_of_axis(width, coordinates.shape[-1])
    rates = base ** (-torch.arange(share, device=coordinates.device, dtype=torch.float32) / share)  # s
    angles = (coordinates[..., None] * rates).flatten(-2)  # b c (a s)
    return pad(angles, (0, width // 2 - angles.shape[-1]))


def pairs_of_axis(width: int, axes: int) -> int:
    """How many pairs of channels each axis turns: at least one."""
    if width % 2 or width < 2 * axes:
        raise VitrailError(f"a rotary position on {axes} axes needs an even width of a head, at least {2 * axes}, got {width}")
    return width // 2 // axes


def turn(
    x: Float[Tensor, "b h n d"], cosine: Float[Tensor, "#b 1 n p"], sine: Float[Tensor, "#b 1 n p"]
) -> Float[Tensor, "b h n d"]:
    """Channels i and i + p as a complex number, times e^(i · angle)  [Su+ 2021, eq. 34].

    The paper pairs channels 2i and 2i + 1; halves are the same up to an order of channels that W_Q and W_K are free to
    learn, and need no strided access (the layout of Llama and DINOv3).
    """
    first, second = x.chunk(2, dim=-1)
    return torch.cat(
        [torch.addcmul(first * cosine, second, sine, value=-1), torch.addcmul(second * cosine, first, sine)], dim=-1
    )


Turns = tuple[Float[Tensor, "_ 1 _ p"], Float[Tensor, "_ 1 _ p"]]  # cosines and sines of queries or keys: b|1 1 n p


class Rotary(Position):
    """q_i -> R_i q_i, k_j -> R_j k_j with R_i^T R_j = R_{j-i}  [Su+ 2021, eq. 16; axial: Heo+ 2024].

    No parameters. Prefix tokens are not turned, so what passes between them and a cell knows where the cell is. Extrapolates to any grid of any number of axes. `base` is 100 on a grid, where
    coordinates are tens [Heo+ 2024], and 10,000 on a line [Su+ 2021].
    """

    attends = True

    def __init__(self, key_width: int, *, axes: int, line: bool = False) -> None:
        super().__init__()
        self.key_width, self.line, self.base = key_width, line, 10_000.0 if line else 100.0
        pairs_of_axis(key_width, 1 if line else axes)  # refuses a width that cannot be shared, before anything is computed

    def prepare(self, queries: Places, keys: Places, device: torch.device | None = None) -> tuple[Turns, Turns]:
        turns = self.turns(queries, device)
        return turns, turns if keys is queries else self.turns(keys, device)

    def turns(self, places: Places, device: torch.device | None) -> Turns:
        coordinates = (places.line() if self.line else places).coordinates(device)
        angles = rotary_angles(coordinates, self.key_width, base=self.base)
        angles = pad(angles, (0, 0, places.prefix, 0))[:, None]  # an angle of 0 turns nothing
        return angles.cos(), angles.sin()

    def rotate(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope
    ) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h m d"]]:
        ours, theirs = scope.prepared
        return turn(q, *(part.to(q.dtype) for part in ours)), turn(k, *(part.to(k.dtype) for part in theirs))
