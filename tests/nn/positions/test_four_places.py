"""The seam for later schemes: embed, rotate, bias and read, tried with toy schemes that are not in the library."""

import torch
from torch.testing import assert_close

from vitrail.explain import record
from vitrail.models.vit import build_vit
from vitrail.models.vit_presets import SIZES
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.positions.position import Position
from vitrail.scope import Scope
from vitrail.tokens import Tokens

WIDTH, HEADS, GRID = 12, 3, (3, 5)


class Slope(Position):
    """ALiBi's idea on a grid: minus the city-block distance; zero to and from prefix tokens."""

    attends = biases = True
    calls = 0

    def prepare(self, queries, keys, device=None):
        self.calls += 1
        a, b = queries.coordinates().float(), keys.coordinates().float()
        distance = (a[:, :, None] - b[:, None]).abs().sum(-1)
        return torch.nn.functional.pad(-distance, (keys.prefix, 0, queries.prefix, 0))[:, None]

    def bias(self, q, k, scope: Scope):
        return scope.prepared


class Turn(Position):
    """Rotary's idea: a sign for each cell, on queries and keys alike."""

    attends = True

    def prepare(self, queries, keys, device=None):
        return 1 - 2.0 * (queries.coordinates().sum(-1) % 2)[:, None, :, None]

    def rotate(self, q, k, scope):
        return q * scope.prepared, k * scope.prepared


class Tell(Position):
    """Shaw's value term: what is read has the mean attended column added."""

    attends = reads = True

    def read(self, weights, scope):
        return (weights @ scope.keys.coordinates()[..., 1:].float()[:, None]).expand(-1, -1, -1, WIDTH // HEADS)


def encoder():
    blocks = [
        EncoderBlock(WIDTH, attention=MultiHeadAttention(WIDTH, heads=HEADS), mlp=FeedForward(WIDTH, hidden=17))
        for _ in range(2)
    ]
    return PlainEncoder(blocks)


def plain_attention(layer, x, *, sign=None, bias=0.0, column=None):
    """The layer written out, without the library's kernels."""
    q, k, v = (part(x).reshape(*x.shape[:2], HEADS, -1).transpose(1, 2) for part in (layer.query, layer.key, layer.value))
    if sign is not None:
        q, k = q * sign, k * sign
    weights = (q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5 + bias).softmax(-1)
    out = weights @ v if column is None else weights @ v + weights @ column
    return layer.output(out.transpose(1, 2).flatten(2)), weights


def test_bias_is_added_to_the_logits_and_prepared_once():
    stack, x, position = encoder(), torch.randn(2, 16, WIDTH), Slope()
    with record(stack) as seen:
        stack(Tokens(x, GRID, prefix=1), position=position)
    bias = position.prepare(Tokens(x, GRID, prefix=1).places, Tokens(x, GRID, prefix=1).places)
    assert position.calls == 2  # once for two layers, and once just now
    block = stack.blocks[0]
    assert_close(seen.layers[0], plain_attention(block.attention, block.attention_norm(x), bias=bias)[1])
    assert_close(seen.layers[0] @ seen.values[0], seen.outputs[0], atol=1e-5, rtol=1e-5)


def test_rotate_acts_on_queries_and_keys():
    stack, x = encoder(), torch.randn(2, 15, WIDTH)
    with record(stack) as seen:
        out = stack(Tokens(x, GRID), position=Turn()).x
    sign = Turn().prepare(Tokens(x, GRID).places, None)
    block = stack.blocks[0]
    _, weights = plain_attention(block.attention, block.attention_norm(x), sign=sign)
    assert_close(seen.layers[0], weights)
    assert not torch.allclose(out, stack(Tokens(x, GRID)).x)


def test_read_is_added_to_what_is_read():
    stack, x = encoder(), torch.randn(2, 15, WIDTH)
    block = stack.blocks[0]
    tokens = Tokens(x, GRID)
    column = tokens.places.coordinates()[..., 1:].float()[:, None]
    scope = stack.scope(tokens, Tell(), None)
    assert_close(block.attention(x, scope), plain_attention(block.attention, x, column=column)[0], atol=1e-5, rtol=1e-5)


def test_any_model_takes_any_scheme():
    from dataclasses import replace

    model = build_vit(replace(SIZES["tiny"], width=WIDTH, heads=HEADS, depth=2, image_size=(32, 48), num_classes=5)).eval()
    images = torch.randn(2, 3, 32, 48)
    before = model(images)
    model.position = Slope()
    assert not torch.allclose(before, model(images))
