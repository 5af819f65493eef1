"""The feed-forward layer in pieces."""

import torch
from torch.testing import assert_close

from vitrail.nn.blocks import feed_forward
from vitrail.nn.blocks.feed_forward import FeedForward


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
