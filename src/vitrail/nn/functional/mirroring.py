"""Pictures made larger by mirroring them at their right and lower edges, so that layers which want whole cells have them.

b batch, ch channels, h w picture, h2 w2 the larger one
"""

import torch
from jaxtyping import Float
from torch import Tensor


def mirror_to_multiple(x: Float[Tensor, "b ch h w"], multiple: int, *, least: int = 1) -> Float[Tensor, "b ch h2 w2"]:
    """Sides up to the next multiple, and at least `least` of them; the edge itself is repeated, as [Liang+ 2021]'s code has it.

    A picture that is smaller than what is added is mirrored again and again: pixel i of n is i mod 2n, from the other end above n.
    """
    for axis in (2, 3):
        side = x.shape[axis]
        larger = max(-(-side // multiple), least) * multiple
        if larger != side:
            place = torch.arange(larger, device=x.device) % (2 * side)
            x = x.index_select(axis, torch.minimum(place, 2 * side - 1 - place))
    return x
