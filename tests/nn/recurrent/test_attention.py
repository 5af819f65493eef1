"""Additive, global and local attention of recurrent decoders: values by hand, sums, windows, padding."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.recurrent.attention import (
    AdditiveScore,
    GlobalAttention,
    LocalAttention,
    Memory,
    ProductScore,
    additive_scores,
    gaussian_window,
    make_score,
    read,
)

WIDTH, PLACES, LENGTHS = 6, 11, (11, 4, 1)
KINDS = [(kind, score) for kind in ("global", "predicted", "monotonic") for score in ("dot", "general", "concat")]


def make(kind, score="general", reach=2):
    score = make_score(score, WIDTH)
    return GlobalAttention(score) if kind == "global" else LocalAttention(WIDTH, score=score, reach=reach, center=kind)


def memory_of(attention):
    mask = torch.arange(PLACES) < torch.tensor(LENGTHS)[:, None]
    return attention.prepare(torch.randn(3, PLACES, WIDTH), mask)


def test_additive_scores_by_hand():
    q, k = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 0.5], [-1.0, 2.0]]])
    scores = additive_scores(q, k, torch.tensor([2.0, -1.0]))
    expected = [2 * math.tanh(1.0) - math.tanh(0.5), -math.tanh(2.0)]
    assert_close(scores, torch.tensor([[expected]]))


def test_concat_is_a_network_of_both_side_by_side():
    """v^T tanh(W [h; s])  [Luong+ 2015, eq. 8]."""
    score, h, s = AdditiveScore(3, 5, hidden=7), torch.randn(2, 1, 3), torch.randn(2, 1, 5)
    together = torch.cat([score.query.weight, score.key.weight], dim=1)
    expected = torch.tanh(torch.cat([h, s], dim=-1) @ together.T + score.key.bias) @ score.direction
    assert_close(score(h, score.keys(s))[..., 0], expected)


def test_global_attention_by_hand():
    """Scores log 3 and 0 are weights 3/4 and 1/4; the place that is not there has none."""
    states = torch.tensor([[[math.log(3.0), 4.0], [0.0, 8.0], [50.0, 50.0]]])
    mask = torch.tensor([[True, True, False]])
    attention = GlobalAttention(ProductScore(nn.Identity()))
    found = attention(torch.tensor([[[1.0, 0.0]]]), attention.prepare(states, mask))
    assert_close(found.weights, torch.tensor([[[0.75, 0.25, 0.0]]]))
    assert_close(found.context, torch.tensor([[[0.75 * math.log(3.0), 5.0]]]))


def test_general_is_a_bilinear_form():
    score, h, s = make_score("general", 3), torch.randn(2, 4, 3), torch.randn(2, 5, 3)
    expected = torch.einsum("bni,ij,bmj->bnm", h, score.key.weight, s)
    assert_close(score(h, score.keys(s)), expected)


@pytest.mark.parametrize("kind, score", KINDS)
def test_weights_sum_to_one_and_padding_has_none(kind, score):
    attention = make(kind, score)
    memory, queries = memory_of(attention), torch.randn(3, 7, WIDTH)
    found = attention(queries, memory)
    assert_close(found.weights.sum(-1), torch.ones(3, 7))
    assert found.weights.masked_select(~memory.mask[:, None]).abs().max() == 0
    assert_close(found.context, torch.einsum("bnm,bmw->bnw", found.weights, memory.states))
    cut = Memory(memory.states[1:2, :4], memory.keys[1:2, :4], memory.mask[1:2, :4])
    assert_close(attention(queries[1:2], cut).context, found.context[1:2])


@pytest.mark.parametrize("kind", ["predicted", "monotonic"])
def test_nothing_is_read_outside_the_window(kind):
    attention = make(kind, reach=2)
    memory, queries = memory_of(attention), 3 * torch.randn(3, 7, WIDTH)
    centers = attention.centers(queries, memory.mask.sum(1))
    away = (torch.arange(PLACES) - centers[..., None]).abs()
    weights = attention(queries, memory).weights
    assert weights[away > 2].abs().max() == 0
    inside = (away <= 2) & memory.mask[:, None]
    assert weights[inside].min() > 0
    assert 0 < inside.float().mean() < 0.6


def test_the_window_by_hand():
    """sigma = D / 2 = 1: exp(-(j - p)^2 / 2) at the distances 1.5, 0.5, 0.5, 1.5; 2.5 is outside."""
    window = gaussian_window(torch.tensor([[1.5]]), 5, reach=2)
    inf = float("inf")
    assert_close(window, torch.tensor([[[-1.125, -0.125, -0.125, -1.125, -inf]]]))
    assert_close(
        gaussian_window(torch.tensor([[1.5]]), 5, reach=2, gaussian=False), torch.tensor([[[0.0, 0.0, 0.0, 0.0, -inf]]])
    )


def test_predicted_weights_are_the_papers_divided_by_their_sum():
    """[Luong+ 2015, eq. 10]: align(h_t, s_j) exp(-(j - p)^2 / (2 sigma^2)), align a softmax over the window."""
    attention = make("predicted", reach=3)
    states, mask = torch.randn(1, PLACES, WIDTH), torch.ones(1, PLACES, dtype=torch.bool)
    memory, query = attention.prepare(states, mask), torch.randn(1, 1, WIDTH)
    center = (PLACES - 1) * torch.sigmoid(attention.place.weight[0] @ torch.tanh(attention.hidden.weight @ query[0, 0]))
    inside = (torch.arange(PLACES) - center).abs() <= 3
    scores = attention.score(query, memory.keys)[0, 0]
    align = scores.masked_fill(~inside, float("-inf")).softmax(0)
    expected = align * torch.exp(-((torch.arange(PLACES) - center) ** 2) / (2 * 1.5**2))
    assert_close(attention(query, memory).weights[0, 0], expected / expected.sum())


def test_the_center_learns():
    attention = make("predicted", reach=5)
    found = attention(torch.randn(3, 7, WIDTH), memory_of(attention))
    [gradient] = torch.autograd.grad(found.context.square().sum(), attention.place.weight)
    assert gradient.abs().max() > 1e-4


def test_monotonic_centers_go_with_the_words_and_stay_at_the_end():
    attention = make("monotonic")
    centers = attention.centers(torch.randn(3, 4, WIDTH), torch.tensor(LENGTHS), first=2)
    assert centers.tolist() == [[2, 3, 4, 5], [2, 3, 3, 3], [0, 0, 0, 0]]


def test_read_weighs_states_by_a_softmax():
    memory = Memory(torch.tensor([[[2.0], [4.0]]]), torch.zeros(1, 2, 1), torch.ones(1, 2, dtype=torch.bool))
    assert_close(read(torch.zeros(1, 1, 2), memory).context, torch.tensor([[[3.0]]]))


def test_a_window_reaches_somewhere():
    with pytest.raises(VitrailError, match="reaches one place at least, got 0"):
        make("predicted", reach=0)
