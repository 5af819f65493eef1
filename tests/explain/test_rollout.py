"""Rollout: hand-computed products, rows that stay shares, and what the head reads."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain import look, rollout, rollout_matrix


def weights(*rows):
    """One image, one head."""
    return torch.tensor([[rows]])


def test_two_tokens_and_two_layers_by_hand():
    first, second = weights([0.6, 0.4], [0.2, 0.8]), weights([1.0, 0.0], [0.5, 0.5])
    # (A + I) / 2: [.8 .2; .1 .9] and [1 0; .25 .75]; the second layer times the first:
    assert_close(rollout_matrix([first, second]), torch.tensor([[[0.8, 0.2], [0.275, 0.725]]]))


def test_heads_are_averaged_or_the_largest_or_the_smallest_counts():
    heads = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]])
    assert_close(rollout_matrix([heads]), torch.tensor([[[0.75, 0.25], [0.0, 1.0]]]))
    assert_close(rollout_matrix([heads], reduce="max"), torch.tensor([[[2 / 3, 1 / 3], [0.0, 1.0]]]))  # (1 1) + (1 0), made 1
    assert_close(rollout_matrix([heads], reduce="min"), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]))


@given(seed=st.integers(0, 99), layers=st.integers(1, 4), how=st.sampled_from(["mean", "max", "min"]))
def test_rows_stay_shares(seed, layers, how):
    generator = torch.Generator().manual_seed(seed)
    some = [torch.rand(2, 3, 5, 5, generator=generator).softmax(-1) for _ in range(layers)]
    found = rollout_matrix(some, reduce=how)
    assert (found >= 0).all()
    assert_close(found.sum(-1), torch.ones(2, 5))


@pytest.mark.parametrize(
    ("pool", "expected"), [("class", [[[0.375]]]), ("mean", [[[0.5, 0.5]]]), ("attention", [[[0.5, 0.5]]])]
)
def test_what_the_head_reads_is_followed_back(two_tokens, pool, expected):
    # (A + I) / 2 = [.75 .25; .25 .75], squared: [.625 .375; .375 .625]
    assert_close(rollout(look(two_tokens(pool), torch.tensor([[[[1.0, 2.0]]]]))), torch.tensor(expected))


def test_attention_pooling_decides_which_tokens_are_followed(two_tokens):
    model = two_tokens("attention")
    with torch.no_grad():
        model.head.pool.score.weight.fill_(50)  # the brighter token alone
    assert_close(rollout(look(model, torch.tensor([[[[1.0, 2.0]]]]))), torch.tensor([[[0.375, 0.625]]]))


def test_all_layers_heads_and_queries_are_needed():
    model = vt.create_model("vit_nano_conv", image_size=16)
    for part in ({"layers": [-1]}, {"heads": [0]}, {"queries": [0]}):
        with pytest.raises(vt.VitrailError, match="all layers, heads and queries"):
            rollout(look(model, torch.randn(1, 3, 16, 16), **part))


def test_layers_of_other_tokens_have_no_product():
    with pytest.raises(vt.VitrailError, match="same tokens in every layer"):
        rollout_matrix([torch.rand(1, 1, 4, 4), torch.rand(1, 1, 2, 2)])
    with pytest.raises(vt.VitrailError, match="same tokens in every layer"):
        rollout_matrix([torch.rand(1, 1, 4, 2)])
    with pytest.raises(vt.VitrailError, match="one layer at least"):
        rollout_matrix([])
