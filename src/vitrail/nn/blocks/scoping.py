"""How a stack of blocks makes the Scope of its self-attention and of its look at a memory, once a forward pass.

b batch, n tokens, m tokens of the memory
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.nn.attention.cache import Cache
from vitrail.nn.functional.attention import segment_mask
from vitrail.nn.positions.position import Position
from vitrail.scope import AttentionCache, Scope, Span
from vitrail.tokens import Places, Tokens


def own_scope(
    tokens: Tokens,
    position: Position | None,
    *,
    causal: bool,
    segments: Int[Tensor, "b n"] | None = None,
    cache: Cache | None = None,
) -> Scope:
    """Of self-attention. With a cache that has seen tokens, the queries are those behind them and the keys are all."""
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
        segments=segments,
        position=position if position is not None and position.attends else None,
        prepared=prepare(position, places, places, tokens.x.device),
    )


def packed_scope(groups: Sequence[Tokens], position: Position | None, *, causal: bool) -> Scope:
    """Of a packed sequence: groups of pictures, those of one shape together, one behind the other. Each has its own scope.

    Where no position acts inside the blocks, neighbors of as many tokens share one, whatever their shapes: it asks for no places.
    """
    inside = position is not None and (position.attends or position.enters)
    spans, start = list[Span](), 0
    for tokens in groups:
        pictures, count = tokens.x.shape[:2]
        if not inside and spans and spans[-1].tokens == count:
            spans[-1] = spans[-1]._replace(pictures=spans[-1].pictures + pictures)
        else:
            scope = own_scope(tokens, position, causal=causal) if inside else Scope(causal=causal)
            spans.append(Span(start, pictures, count, scope))
        start += pictures * count
    lengths = [span.tokens for span in spans for _ in range(span.pictures)]
    device = groups[0].x.device
    segments = torch.arange(len(lengths), device=device).repeat_interleave(torch.tensor(lengths, device=device))
    return Scope(segments=segments[None], spans=tuple(spans))


def cached_scope(tokens: Tokens, position: Position | None, cache: Cache, *, causal: bool) -> Scope:
    if not causal or tokens.mask is not None or tokens.prefix:
        raise VitrailError("a key-value cache needs causal attention, and tokens without a mask and without prefix")
    new, count, device = tokens.places, tokens.x.shape[1], tokens.x.device
    acting = position if position is not None and position.attends else None
    among_themselves = Scope(new, new, position=acting, prepared=prepare(position, new, new, device))
    total = cache.length + count
    scope = Scope(
        queries=new,
        keys=new if not cache.length else Places(new.grid, 0, torch.arange(total, device=device)[None]),
        causal=count > 1,  # one token may look at every key there is
        position=acting,
        prepared=among_themselves.prepared,
        arriving=among_themselves,
    )
    if cache.length and acting is not None and (acting.biases or acting.reads):
        assert scope.keys is not None
        return scope._replace(prepared=prepare(position, new, scope.keys, device))
    return scope


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
