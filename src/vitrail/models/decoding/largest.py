"""The few largest of very many numbers, fast.

r rows, v numbers in each, k largest
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 64  # numbers whose greatest is looked at first; measured: 32 to 128 cost the same


def largest(x: Float[Tensor, "r v"], k: int) -> tuple[Float[Tensor, "r k"], Int[Tensor, "r k"]]:
    """The k largest numbers of each row, falling, and where they stand: `topk`, but several times as fast on a processor.

    They stand in the k blocks with the largest maxima: a number in another block has k maxima before it.
    """
    blocks = x.shape[1] // BLOCK
    if k >= blocks:
        return tuple(x.topk(k))  # type: ignore[return-value]
    whole = x[:, : blocks * BLOCK].reshape(-1, blocks, BLOCK)
    chosen = whole.amax(dim=2).topk(k).indices.sort(dim=1).values  # r k
    places = (chosen[..., None] * BLOCK + torch.arange(BLOCK, device=x.device)).flatten(1)
    rest = torch.arange(blocks * BLOCK, x.shape[1], device=x.device).expand(x.shape[0], -1)
    places = torch.cat([places, rest], dim=1)
    values, order = x.gather(1, places).topk(k)
    return values, places.gather(1, order)
