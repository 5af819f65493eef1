"""The feed-forward layer: its gate."""

import torch
from torch.testing import assert_close

from vitrail.nn.blocks.feed_forward import FeedForward, swiglu


def test_swiglu_by_hand():
    found = swiglu(torch.tensor([[0.0, 2.0, 3.0, 5.0]]))
    assert_close(found, torch.tensor([[0.0, 5 * 2 / (1 + torch.tensor(-2.0).exp())]]))


def test_a_gated_layer_has_a_third_matrix():
    layer, x = FeedForward(6, hidden=5, activation="swiglu"), torch.randn(2, 3, 6)
    assert layer.expand.weight.shape == (10, 6)
    assert layer.contract.weight.shape == (6, 5)
    with torch.no_grad():
        layer.expand.weight[5:] = 0
        layer.expand.bias[5:] = 0  # a value of 0 passes no gate
    assert_close(layer(x), layer.contract.bias.expand(2, 3, 6))
