"""The decoder as a stack: cross-attention with positions of its own, learned queries, recomputed blocks, refusals."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.attention.cache import Cache
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.blocks.decoder_block import DecoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.decoders.plain import PlainDecoder
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.positions.conditional import Conditional
from vitrail.nn.positions.learned import Learned1d
from vitrail.nn.positions.position import Position
from vitrail.scope import Scope
from vitrail.tokens import Tokens

WIDTH, HEADS, MEMORY = 12, 3, 10


def block(**options):
    return DecoderBlock(
        WIDTH,
        attention=MultiHeadAttention(WIDTH, heads=HEADS),
        cross_attention=MultiHeadAttention(WIDTH, heads=HEADS, context_width=MEMORY),
        mlp=FeedForward(WIDTH, hidden=17),
        **options,
    )


def inputs(queries=5, grid=(2, 3)):
    return Tokens(torch.randn(2, queries, WIDTH), (queries,)), Tokens(torch.randn(2, 6, MEMORY), grid)


class OnKeys(Position):
    """Rows added to what the memory's keys are made from, as DETR has it."""

    attends = True

    def __init__(self, added):
        super().__init__()
        self.added = added

    def prepare(self, queries, keys, device=None):
        return self.added.all_rows(keys, device)

    def sources(self, x, y, scope):
        return x, y + scope.prepared


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_written_out(norm):
    part, (tokens, memory) = block(norm=norm), inputs()
    x, scope = tokens.x, Scope()
    steps = [
        (part.attention_norm, lambda y: part.attention(y, scope)),
        (part.cross_attention_norm, lambda y: part.cross_attention(y, scope, memory.x)),
        (part.mlp_norm, part.mlp),
    ]
    for layer_norm, step in steps:
        nn.init.normal_(layer_norm.weight)
        x = x + step(layer_norm(x)) if norm == "pre" else layer_norm(x + step(x))
    assert_close(part(tokens.x, scope, memory.x), x)


def test_positions_of_the_memory_on_keys_alone():
    """They follow the memory's tokens when these are shuffled; values do not have them."""
    position, decoder = OnKeys(Learned1d(MEMORY, grid=(2, 3))), PlainDecoder([block(), block()], causal=False)
    nn.init.normal_(position.added.table)
    tokens, memory = inputs()
    plain = decoder(tokens, memory)
    placed = decoder(tokens, memory, memory_position=position)
    assert not torch.allclose(placed.x, plain.x, atol=1e-3)
    order = torch.randperm(6)
    shuffled = memory._replace(x=memory.x[:, order], index=order[None])
    assert_close(decoder(tokens, shuffled, memory_position=position).x, placed.x)
    same = memory._replace(x=memory.x[:, :1].expand(-1, 6, -1))  # equal values: where one looks does not matter
    assert_close(decoder(tokens, same, memory_position=position).x, decoder(tokens, same).x, atol=1e-5, rtol=1e-4)


def test_queries_that_are_all_there_at_once_commute_with_permutations():
    decoder, (tokens, memory), order = PlainDecoder([block(), block()], causal=False), inputs(), torch.randperm(5)
    moved = decoder(tokens._replace(x=tokens.x[:, order]), memory).x
    assert_close(moved, decoder(tokens, memory).x[:, order], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("drop_path", [0.0, 0.5])
def test_recomputed_blocks_give_the_same_gradients(drop_path):
    decoder, (tokens, memory), found = PlainDecoder([block(dropout=0.2, drop_path=drop_path) for _ in range(2)]), inputs(), []
    for again in (False, True):
        decoder.checkpointing = again
        decoder.zero_grad()
        torch.manual_seed(3)
        decoder(tokens, memory).x.square().sum().backward()
        found.append([p.grad.clone() for p in decoder.parameters()])
    for plain, recomputed in zip(*found, strict=True):
        assert_close(recomputed, plain, atol=1e-5, rtol=1e-4)


def test_dropout_is_on_every_branch():
    part, (tokens, memory) = block(dropout=0.999999), inputs()
    assert_close(part(tokens.x, Scope(), memory.x), tokens.x)
    assert not torch.allclose(part.eval()(tokens.x, Scope(), memory.x), tokens.x, atol=1e-3)


def test_a_cache_needs_causal_attention():
    tokens, memory = inputs()
    with pytest.raises(VitrailError, match="a key-value cache needs causal attention"):
        PlainDecoder([block()], causal=False)(tokens, memory, cache=Cache(1))
    with pytest.raises(VitrailError, match="a key-value cache needs causal attention"):
        PlainEncoder([], causal=False)(tokens, cache=Cache(1))


def test_a_convolution_on_both_sides_is_refused_where_it_would_tell_the_future():
    tokens, memory = inputs()
    with pytest.raises(VitrailError, match="would tell the future"):
        PlainDecoder([block()])(tokens, memory, position=Conditional(WIDTH, axes=1))
    PlainDecoder([block()])(tokens, memory, position=Conditional(WIDTH, axes=1, causal=True))
