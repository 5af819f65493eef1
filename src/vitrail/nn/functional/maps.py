"""Tokens as maps and back: no copy, the numbers of a place stay beside each other (channels last, which convolutions like).

b batch, n tokens, d width, h w grid, y x another one
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def to_maps(x: Float[Tensor, "b n d"], grid: tuple[int, int]) -> Float[Tensor, "b d h w"]:
    return x.reshape(x.shape[0], *grid, x.shape[2]).permute(0, 3, 1, 2)


def to_tokens(maps: Float[Tensor, "b d h w"]) -> Float[Tensor, "b n d"]:
    return maps.permute(0, 2, 3, 1).flatten(1, 2)


def stretch(maps: Float[Tensor, "b d h w"], size: tuple[int, int]) -> Float[Tensor, "b d y x"]:
    """Bilinear, cell centers aligned (no corners pinned)."""
    if tuple(maps.shape[2:]) == tuple(size):
        return maps
    return F.interpolate(maps, size=size, mode="bilinear", align_corners=False)
