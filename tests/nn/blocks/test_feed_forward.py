"""The feed-forward layer: its gate, and a large input in pieces."""

import torch
from torch.testing import assert_close

from vitrail.nn.blocks import feed_forward
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


def test_pieces_of_a_large_input_give_what_all_of_it_at_once_gives(monkeypatch):
    layer, x = FeedForward(5, hidden=11), torch.randn(3, 17, 5)
    with torch.inference_mode():
        whole = layer(x)
        monkeypatch.setattr(feed_forward, "MANY", 3 * 17 * 11)
        monkeypatch.setattr(feed_forward, "PIECE", 7 * 11)  # 51 rows: seven pieces of 7 and one of 2
        sizes = []
        layer.expand.register_forward_hook(lambda _, given, __: sizes.append(len(given[0])))
        assert_close(layer(x), whole)
    assert sizes == [7] * 7 + [2]


def test_where_a_gradient_is_wanted_nothing_is_cut(monkeypatch):
    layer = FeedForward(5, hidden=11)
    monkeypatch.setattr(feed_forward, "MANY", 1)
    sizes = []
    layer.expand.register_forward_hook(lambda _, given, __: sizes.append(given[0].shape))
    layer(torch.randn(2, 3, 5)).sum().backward()
    assert sizes == [(2, 3, 5)]
