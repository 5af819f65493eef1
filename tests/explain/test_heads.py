"""Entropy and divergence of heads against values known by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from vitrail.explain.heads import entropy, head_divergence, head_entropy
from vitrail.explain.look import Look
from vitrail.explain.record import Seen
from vitrail.tokens import Tokens


def look_at(*layers):
    seen = Seen({})
    seen.layers = list(layers)
    tokens = Tokens(torch.zeros(len(layers[0]), layers[0].shape[2], 4), grid=(1, layers[0].shape[2]))
    return Look(logits=torch.zeros(len(layers[0]), 2), tokens=tokens, seen=seen, image_size=(8, 8))


@pytest.mark.parametrize("keys", [1, 2, 7, 64])
def test_an_even_look_has_log2_of_the_keys_and_a_single_one_none(keys):
    even, single = torch.full((keys, keys), 1 / keys), torch.eye(keys)
    found = look_at(torch.stack([even, single])[None])
    assert_close(head_entropy(found), torch.tensor([[math.log2(keys), 0.0]]))
    assert_close(head_entropy(found, unit="share"), torch.tensor([[float(keys > 1), 0.0]]))


def test_entropy_by_hand_is_the_mean_over_images_and_queries():
    weights = torch.tensor([[[[0.5, 0.5], [1.0, 0.0]]], [[[0.25, 0.75], [0.5, 0.5]]]])  # two images, one head
    quarter = 0.25 * 2 + 0.75 * math.log2(4 / 3)
    assert_close(head_entropy(look_at(weights)), torch.tensor([[(1 + 0 + quarter + 1) / 4]]))


def test_heads_that_share_no_key_are_one_bit_apart_and_equal_ones_none():
    left, right = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0]]), torch.tensor([[0, 0.5, 0.5], [0, 0, 1.0]])
    found = head_divergence(look_at(torch.stack([left, right, left])[None]))
    assert found.shape == (1, 3, 3)
    assert_close(found[0], torch.tensor([[0, 1.0, 0], [1, 0, 1], [0, 1, 0]]))


def test_divergence_by_hand():
    weights = torch.tensor([[1.0, 0], [0.5, 0.5]])[None, :, None]  # two heads, one query
    expected = (0.75 * math.log2(4 / 3) + 0.25 * 2) - 0.5
    assert_close(head_divergence(look_at(weights))[0, 0, 1], torch.tensor(expected))


@given(seed=st.integers(0, 1000), keys=st.integers(1, 9))
@settings(max_examples=20)
def test_bounds(seed, keys):
    weights = torch.randn(2, 3, 4, keys, generator=torch.Generator().manual_seed(seed)).mul(4).softmax(-1)
    assert (entropy(weights) <= math.log2(keys) + 1e-5).all()
    apart = head_divergence(look_at(weights))
    assert ((apart >= 0) & (apart <= 1)).all()
    assert_close(apart, apart.transpose(1, 2))
