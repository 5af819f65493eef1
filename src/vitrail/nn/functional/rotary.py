"""Rotary positions: pairs of channels turned by angles that grow with the coordinate.

b batch, h heads, n tokens, c cells, a axes, d key width, p = d / 2 pairs
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from vitrail.errors import VitrailError


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
