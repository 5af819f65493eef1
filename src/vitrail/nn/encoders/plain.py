"""The plain encoder: the same block, again and again, at one resolution.

b batch, n tokens, d width
"""

from collections.abc import Collection, Sequence

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vitrail.nn.attention.cache import Cache
from vitrail.nn.attention.carry import uses_carry, with_carry
from vitrail.nn.blocks.merging import Merged
from vitrail.nn.blocks.scoping import own_scope, packed_scope, scope_at
from vitrail.nn.functional.merging import unmerge
from vitrail.nn.positions.packed import PackedPosition
from vitrail.nn.positions.position import Position
from vitrail.scope import Scope
from vitrail.tokens import Tokens


class PlainEncoder(nn.Module):
    """z_l = block_l(z_{l-1}, scope), then a last norm  [Dosovitskiy+ 2021, eq. 2-4]. Makes the Scope, once."""

    def __init__(self, blocks: Sequence[nn.Module], *, norm: nn.Module | None = None, causal: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm if norm is not None else nn.Identity()  # post-norm blocks end on a norm of their own
        self.causal = causal
        self.carries = uses_carry(self.blocks)
        self.checkpointing = False  # in training: keep only what goes into a block, and compute the rest again [Chen+ 2016]

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
        """The last tokens, and those behind each block whose number is in `keep`, normed as the last are. Where blocks merge tokens
        the last are those that are left; of the kept ones each stands in its cell again.

        `scope`, if it is made already, says all of who may look at whom.
        """
        scope = with_carry(self.scope(tokens, position, segments, cache) if scope is None else scope, self.carries)
        kept = []
        again = self.checkpointing and self.training and torch.is_grad_enabled()
        for number, block in enumerate(self.blocks):
            here = scope_at(scope, number, position, None if cache is None else cache.own)
            x = position.enter(tokens.x, number, here) if position is not None and position.enters else tokens.x
            found = checkpoint(block, x, here, use_reentrant=False) if again else block(x, here)
            if isinstance(found, Merged):
                tokens = tokens._replace(x=found.x, sizes=found.sizes, merges=(*tokens.merges, found.step))
                scope = scope._replace(queries=tokens.places, keys=tokens.places, sizes=tokens.sizes)
                scope = with_carry(scope, self.carries)  # of other tokens
            else:
                tokens = tokens._replace(x=found)
            if number in keep:
                kept.append(unmerge(tokens._replace(x=self.norm(tokens.x))))
        if cache is not None:
            cache.length += tokens.x.shape[1]
        return tokens._replace(x=self.norm(tokens.x)), kept

    def packed(self, groups: Sequence[Tokens], *, position: Position | None = None) -> list[Tokens]:
        """Pictures of different shapes as one sequence, in which each sees itself alone  [Dehghani+ 2023, NaViT, section 2].

        `groups` are batches of pictures of one shape each. What acts on single tokens runs over all of them at once and without
        padding; attention computes sum_i n_i^2 pairs for pictures of n_i tokens.
        """
        scope = packed_scope(groups, position, causal=self.causal)
        together = torch.cat([tokens.x.flatten(0, 1) for tokens in groups])[None]  # 1 n d
        around = None if position is None else PackedPosition(position)
        out = self.walk(Tokens(together, grid=(together.shape[1],)), position=around, scope=scope)[0].x[0]  # n d
        parts = out.split_with_sizes([tokens.x.shape[0] * tokens.x.shape[1] for tokens in groups])
        return [tokens._replace(x=part.view_as(tokens.x)) for tokens, part in zip(groups, parts, strict=True)]

    def scope(self, tokens: Tokens, position: Position | None, segments: Tensor | None, cache: Cache | None = None) -> Scope:
        return own_scope(tokens, position, causal=self.causal, segments=segments, cache=cache)
