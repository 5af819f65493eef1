"""The plain encoder: the same block, again and again, at one resolution.

b batch, n tokens, d width
"""

from collections.abc import Collection, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vitrail.nn.functional.attention import segment_mask
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
        self.checkpointing = False  # in training: keep only what goes into a block, and compute the rest again [Chen+ 2016]

    def forward(
        self,
        tokens: Tokens,
        *,
        position: Position | None = None,
        segments: Int[Tensor, "b n"] | None = None,
    ) -> Tokens:
        return self.walk(tokens, position=position, segments=segments)[0]

    def walk(
        self,
        tokens: Tokens,
        *,
        position: Position | None = None,
        segments: Int[Tensor, "b n"] | None = None,
        keep: Collection[int] = (),
    ) -> tuple[Tokens, list[Tokens]]:
        """The last tokens, and those behind each block whose number is in `keep`, normed as the last are."""
        scope = self.scope(tokens, position, segments)
        x, kept = tokens.x, []
        again = self.checkpointing and self.training and torch.is_grad_enabled()
        for number, block in enumerate(self.blocks):
            here = scope
            if position is not None:
                here = position.at(scope, number)
                x = position.enter(x, number, here) if position.enters else x
            x = checkpoint(block, x, here, use_reentrant=False) if again else block(x, here)
            if number in keep:
                kept.append(tokens._replace(x=self.norm(x)))
        return tokens._replace(x=self.norm(x)), kept

    def scope(self, tokens: Tokens, position: Position | None, segments: Tensor | None) -> Scope:
        mask: Bool[Tensor, "b 1 #n n"] | None = None
        if tokens.mask is not None:
            mask = tokens.mask[:, None, None, :]
        if segments is not None:
            together = segment_mask(segments, segments)
            mask = together if mask is None else mask & together
        places = tokens.places
        prepares = position is not None and (position.attends or position.enters)
        return Scope(
            queries=places,
            keys=places,
            mask=mask,
            causal=self.causal,
            segments=segments,
            position=position if position is not None and position.attends else None,
            prepared=position.prepare(places, places, tokens.x.device) if position is not None and prepares else None,
        )
