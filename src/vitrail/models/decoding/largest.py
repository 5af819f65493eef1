"""The largest of very many numbers, fast: `argmax` and `topk` of a processor take several times as long.

r rows, v numbers in each, k largest
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 64  # numbers of which the greatest is looked at first


def largest(x: Float[Tensor, "r v"], k: int) -> tuple[Float[Tensor, "r k"], Int[Tensor, "r k"]]:
    """The k largest numbers of each row, falling, and where they stand: `topk`.

    They stand in the k blocks with the largest maxima, a number in another block having k maxima before it, or in what is left
    behind the last whole block.
    """
    count = x.shape[1] // BLOCK
    if k >= count:
        values, places = x.topk(k)
        return values, places
    blocks = x[:, : count * BLOCK].reshape(-1, BLOCK)  # (r count) BLOCK
    maxima = blocks.amax(dim=1).reshape(-1, count)
    chosen = maxima.topk(k).indices  # r k
    first = count * torch.arange(x.shape[0], device=x.device)[:, None]
    contenders = blocks.index_select(0, (first + chosen).flatten()).reshape(-1, k * BLOCK)
    if count * BLOCK < x.shape[1]:
        contenders = torch.cat([contenders, x[:, count * BLOCK :]], dim=1)
    values, order = contenders.topk(k)
    origin = torch.cat([chosen, torch.full_like(chosen[:, :1], count)], dim=1)
    return values, origin.gather(1, order // BLOCK) * BLOCK + order % BLOCK


def first_largest(x: Float[Tensor, "r v"]) -> Int[Tensor, "r"]:
    """Where the largest number of each row stands, the first of equal ones: `argmax`."""
    if x.shape[1] < 2 * BLOCK or x.shape[1] % BLOCK:
        return x.argmax(dim=1)
    blocks = x.reshape(x.shape[0], -1, BLOCK)
    block = blocks.amax(dim=2).argmax(dim=1)  # r
    inside = blocks[torch.arange(x.shape[0], device=x.device), block].argmax(dim=1)
    return block * BLOCK + inside
