"""The plain encoder: the same block, again and again, at one resolution.

b batch, n tokens, d width
"""

from collections.abc import Collection, Sequence

from jaxtyping import Int
from torch import Tensor, nn

from vitrail.nn.attention.cache import Cache
from vitrail.nn.attention.carry import with_carry
from vitrail.nn.blocks.stack import Stack, own_scope, scope_at
from vitrail.nn.positions.position import Position
from vitrail.scope import Scope
from vitrail.tokens import Tokens


class PlainEncoder(Stack):
    """z_l = block_l(z_{l-1}, scope), then a last norm  [Dosovitskiy+ 2021, eq. 2-4]. Makes the Scope, once."""

    def __init__(self, blocks: Sequence[nn.Module], *, norm: nn.Module | None = None, causal: bool = False) -> None:
        super().__init__(blocks)
        self.norm = norm if norm is not None else nn.Identity()  # post-norm blocks end on a norm of their own
        self.causal = causal

    def forward(
        self,
        tokens: Tokens,
        *,
        position: Position | None = None,
        segments: Int[Tensor, "b n"] | None = None,
        cache: Cache | None = None,
    ) -> Tokens:
        """With a cache, the tokens are those behind the ones it has seen; a decoder without a memory is a causal encoder."""
        return self.walk(tokens, position=position, segments=segments, cache=cache)[0]

    def walk(
        self,
        tokens: Tokens,
        *,
        position: Position | None = None,
        segments: Int[Tensor, "b n"] | None = None,
        keep: Collection[int] = (),
        cache: Cache | None = None,
        scope: Scope | None = None,
    ) -> tuple[Tokens, list[Tokens]]:
        """The last tokens, and those behind each block whose number is in `keep`, normed as the last are.

        `scope`, if it is made already, says all of who may look at whom.
        """
        scope = with_carry(self.scope(tokens, position, segments, cache) if scope is None else scope, self.carries)
        x, kept = tokens.x, []
        for number, block in enumerate(self.blocks):
            here = scope_at(scope, number, position, None if cache is None else cache.own)
            if position is not None and position.enters:
                x = position.enter(x, number, here)
            x = self.run(block, x, here)
            if number in keep:
                kept.append(tokens._replace(x=self.norm(x)))
        if cache is not None:
            cache.length += tokens.x.shape[1]
        return tokens._replace(x=self.norm(x)), kept

    def scope(self, tokens: Tokens, position: Position | None, segments: Tensor | None, cache: Cache | None = None) -> Scope:
        return own_scope(tokens, position, causal=self.causal, segments=segments, cache=cache)
