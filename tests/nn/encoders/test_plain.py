"""The plain encoder: it makes the Scope, and padding, packing and causality go through it."""

import torch
from torch import nn
from torch.testing import assert_close

from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.tokens import Tokens

WIDTH, N = 12, 7


def encoder(**options):
    blocks = [
        EncoderBlock(WIDTH, attention=MultiHeadAttention(WIDTH, heads=3), mlp=FeedForward(WIDTH, hidden=17)) for _ in range(3)
    ]
    return PlainEncoder(blocks, norm=nn.LayerNorm(WIDTH), **options)


def test_without_positions_the_encoder_commutes_with_permuting_tokens():
    stack, x, order = encoder(), torch.randn(2, N, WIDTH), torch.randperm(N)
    assert_close(stack(Tokens(x[:, order], (N,))).x, stack(Tokens(x, (N,))).x[:, order], atol=1e-5, rtol=1e-5)


def test_padding_changes_nothing_for_the_real_tokens():
    stack, x = encoder(), torch.randn(2, N, WIDTH)
    real = torch.arange(N)[None].expand(2, -1) < 5
    other = torch.where(real[..., None], x, torch.randn_like(x))
    out, same = stack(Tokens(x, (N,), mask=real)).x, stack(Tokens(other, (N,), mask=real)).x
    assert_close(out[:, :5], same[:, :5])
    assert_close(out[:, :5], stack(Tokens(x[:, :5], (5,))).x, atol=1e-5, rtol=1e-5)


def test_packed_sequences_equal_one_at_a_time():
    stack, x = encoder(), torch.randn(2, N, WIDTH)
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1]] * 2)
    packed = stack(Tokens(x, (N,)), segments=segments).x
    apart = torch.cat([stack(Tokens(x[:, part], (part.stop - part.start,))).x for part in (slice(0, 3), slice(3, 7))], dim=1)
    assert_close(packed, apart, atol=1e-5, rtol=1e-5)


def test_a_causal_encoder_does_not_see_the_future():
    stack, x = encoder(causal=True), torch.randn(2, N, WIDTH)
    assert_close(stack(Tokens(x, (N,))).x[:, :4], stack(Tokens(x[:, :4], (4,))).x, atol=1e-5, rtol=1e-5)


def test_walk_keeps_what_is_asked_for():
    stack, tokens = encoder(), Tokens(torch.randn(2, N, WIDTH), (N,))
    last, kept = stack.walk(tokens, keep=[0, 2])
    assert len(kept) == 2
    assert_close(kept[1].x, last.x)
    assert_close(last.x, stack(tokens).x)
