"""What every stack of blocks does: run them, and make the Scope of self-attention and of the look at a memory, once a forward pass.

b batch, n tokens, m tokens of the memory, d width
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vitrail.errors import VitrailError
from vitrail.nn.attention.cache import Cache
from vitrail.nn.attention.carry import uses_carry, with_carry
from vitrail.nn.functional.attention import segment_mask
from vitrail.nn.positions.position import Position
from vitrail.scope import AttentionCache, Scope
from vitrail.tokens import Places, Tokens


class Stack(nn.Module):
    """Blocks, each of which reads what the one before it made."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.carries = uses_carry(self.blocks)
        self.checkpointing = False  # in training: keep only what goes into a block, and compute the rest again [Chen+ 2016]

    def run(self, block: nn.Module, x: Float[Tensor, "b n d"], *context: Any) -> Float[Tensor, "b _ d"]:
        """One block; in training its inner activations are kept or computed again."""
        again = self.checkpointing and self.training and torch.is_grad_enabled()
        return checkpoint(block, x, *context, use_reentrant=False) if again else block(x, *context)

    def open_scope(self, tokens: Tokens) -> Scope:
        """Of self-attention among all tokens, with nothing carried yet."""
        return with_carry(Scope(queries=tokens.places, keys=tokens.places), self.carries)


def own_scope(
    tokens: Tokens,
    position: Position | None,
    *,
    causal: bool,
    segments: Int[Tensor, "b n"] | None = None,
    cache: Cache | None = None,
) -> Scope:
    """Of self-attention. With a cache that has seen tokens, the queries are those behind them and the keys are all. `segments`: several
    images packed into one sequence, each token's image by its number; the mask has them apart."""
    if cache is not None:
        return cached_scope(tokens, position, cache, causal=causal)
    mask: Bool[Tensor, "b 1 #n n"] | None = None
    if tokens.mask is not None:
        mask = tokens.mask[:, None, None, :]
    if segments is not None:
        together = segment_mask(segments, segments)
        mask = together if mask is None else mask & together
    places = tokens.places
    return Scope(
        queries=places,
        keys=places,
        mask=mask,
        causal=causal,
        position=position if position is not None and position.attends else None,
        prepared=prepare(position, places, places, tokens.x.device),
    )


def cached_scope(tokens: Tokens, position: Position | None, cache: Cache, *, causal: bool) -> Scope:
    """Of the tokens behind those that the cache has seen: they look at all there are.

    What a position prepares for `bias` and `read` is about new queries and all keys; what it prepares for `sources` and `rotate`, about
    the new tokens among themselves: earlier keys are in the cache as they were made. No scheme does both.
    """
    if not causal or tokens.mask is not None or tokens.prefix:
        raise VitrailError("a key-value cache needs causal attention, and tokens without a mask and without prefix")
    new, count, device = tokens.places, tokens.x.shape[1], tokens.x.device
    total = cache.length + count
    keys = new if not cache.length else Places(new.grid, 0, torch.arange(total, device=device)[None])
    acting = position if position is not None and position.attends else None
    by_pairs = acting is not None and (acting.biases or acting.reads)
    return Scope(
        queries=new,
        keys=keys,
        causal=count > 1,  # one token may look at every key there is
        position=acting,
        prepared=prepare(position, new, keys if by_pairs else new, device),
    )


def prepare(position: Position | None, queries: Places, keys: Places, device: torch.device) -> object:
    if position is None or not (position.attends or position.enters):
        return None
    return position.prepare(queries, keys, device)


def scope_at(scope: Scope, layer: int, position: Position | None, caches: Sequence[AttentionCache] | None) -> Scope:
    """As block `layer` sees it; `caches` has one for each."""
    here = scope if position is None else position.at(scope, layer)
    return here if caches is None else here._replace(cache=caches[layer])


def memory_scope(tokens: Tokens, memory: Tokens, position: Position | None) -> Scope:
    """Of cross-attention: everyone may look at every real token of the memory."""
    places, keys = tokens.places, memory.places
    return Scope(
        queries=places,
        keys=keys,
        mask=None if memory.mask is None else memory.mask[:, None, None, :],
        position=position,
        prepared=prepare(position, places, keys, tokens.x.device),
    )
