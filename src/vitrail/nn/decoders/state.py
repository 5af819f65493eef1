"""What a model keeps between two steps of writing words: the memory it reads and the key-value cache.

r rows of the batch that stay
"""

import torch
from jaxtyping import Int
from torch import Tensor

from vitrail.nn.attention.cache import Cache, is_identity
from vitrail.tokens import Tokens


class DecodingState:
    """Made by a model's `begin`, used by its `step`. Without a cache every step computes all tokens again."""

    def __init__(self, memory: Tokens | None, cache: Cache | None) -> None:
        self.memory, self.cache = memory, cache
        self.sources = (
            None if memory is None else torch.arange(len(memory.x), device=memory.x.device)
        )  # whose memory a row reads

    def reorder(self, rows: Int[Tensor, "r"]) -> None:
        """Row i becomes what row rows[i] was: beam search repeats and permutes, what has finished is dropped."""
        before = self.sources
        if before is not None:
            if is_identity(rows, len(before)):
                return
            self.sources = before[rows]
        same = (
            self.sources is not None and before is not None and torch.equal(self.sources, before)
        )  # beams of one source trade places
        if self.memory is not None and not same:
            mask = None if self.memory.mask is None else self.memory.mask[rows]
            index = self.memory.index
            index = index if index is None or len(index) == 1 else index[rows]
            self.memory = self.memory._replace(x=self.memory.x[rows], mask=mask, index=index)
        if self.cache is not None:
            self.cache.reorder(rows, memory=not same)
