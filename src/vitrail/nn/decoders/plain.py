"""The plain decoder: the same block, again and again, each looking at its own tokens and at a memory.

b batch, n tokens, d width, r rows that are chosen
"""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor, nn

from vitrail.nn.attention.cache import Cache, is_identity
from vitrail.nn.attention.carry import with_carry
from vitrail.nn.blocks.stack import Stack, memory_scope, own_scope, scope_at
from vitrail.nn.positions.position import Position
from vitrail.tokens import Tokens


class PlainDecoder(Stack):
    """z_l = block_l(z_{l-1}, scope, memory, scope of the memory), then a last norm  [Vaswani+ 2017, section 3.1].

    Causal for words; not causal where all tokens are there at once, such as learned queries [Carion+ 2020].
    """

    def __init__(self, blocks: Sequence[nn.Module], *, norm: nn.Module | None = None, causal: bool = True) -> None:
        super().__init__(blocks)
        self.norm = norm if norm is not None else nn.Identity()  # post-norm blocks end on a norm of their own
        self.causal = causal

    def forward(
        self,
        tokens: Tokens,
        memory: Tokens,
        *,
        position: Position | None = None,
        memory_position: Position | None = None,
        cache: Cache | None = None,
    ) -> Tokens:
        """`position` acts between the tokens, `memory_position` between them and the memory.

        With a cache the tokens are those behind the ones it has seen, and the memory is that of the first call.
        """
        scope = with_carry(own_scope(tokens, position, causal=self.causal, cache=cache), self.carries)
        if memory_position is not None and not memory_position.attends:  # it has nothing to say between two sequences
            memory_position = None
        outer = with_carry(memory_scope(tokens, memory, memory_position), self.carries)
        own, held = (None, None) if cache is None else (cache.own, cache.memory)
        x = tokens.x
        for number, block in enumerate(self.blocks):
            here = scope_at(scope, number, position, own)
            if position is not None and position.enters:
                x = position.enter(x, number, here)
            there = scope_at(outer, number, memory_position, held)
            x = self.run(block, x, here, memory.x, there)
        if cache is not None:
            cache.length += tokens.x.shape[1]
        return tokens._replace(x=self.norm(x))


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
        )  # beams of one source swap places
        if self.memory is not None and not same:
            mask = None if self.memory.mask is None else self.memory.mask[rows]
            index = self.memory.index
            index = index if index is None or len(index) == 1 else index[rows]
            self.memory = self.memory._replace(x=self.memory.x[rows], mask=mask, index=index)
        if self.cache is not None:
            self.cache.reorder(rows, memory=not same)
