"""Row A7, absolute positions in queries and keys only."""

import torch
from torch.testing import assert_close

from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.positions.added import AbsoluteQK
from vitrail.nn.positions.learned import Learned1d
from vitrail.scope import OPEN, Scope
from vitrail.tokens import Places

WIDTH, HEADS, PLACES = 12, 3, Places((3, 5), prefix=1)


def parts():
    position = AbsoluteQK(Learned1d(WIDTH, grid=(3, 5), prefix=1))
    torch.nn.init.normal_(position.added.table)
    scope = Scope(queries=PLACES, keys=PLACES, position=position, prepared=position.prepare(PLACES, PLACES))
    return position, scope, MultiHeadAttention(WIDTH, heads=HEADS), torch.randn(2, 16, WIDTH)


def test_it_is_the_tutorials_equation():
    position, scope, layer, x = parts()
    placed = x + torch.cat([position.added.prefix_table, position.added.table])
    q, k, v = (
        part(source).view(2, 16, HEADS, -1).transpose(1, 2)
        for part, source in ((layer.query, placed), (layer.key, placed), (layer.value, x))
    )
    weights = (q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5).softmax(-1)
    assert_close(layer(x, scope), layer.output((weights @ v).transpose(1, 2).flatten(2)), atol=1e-5, rtol=1e-5)


def test_values_are_untouched():
    """Where all tokens are the same, every mean of values is that value: positions change the weights, not what is read."""
    _, scope, layer, x = parts()
    same = x[:, :1].expand(-1, 16, -1)
    assert_close(layer(same, scope), layer(same, OPEN), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(layer(x, scope), layer(x, OPEN), atol=1e-3)


def test_queries_and_keys_of_different_places():
    position, _, layer, x = parts()
    few = Places((3, 5), index=torch.tensor([[4, 0], [7, 8]]))
    scope = Scope(queries=few, keys=PLACES, position=position, prepared=position.prepare(few, PLACES))
    asking, asked = position.sources(x[:, :2], x, scope)
    assert_close(asking - x[:, :2], position.added.table[few.index])
    assert_close(asked[:, 1:] - x[:, 1:], position.added.table.expand(2, -1, -1))
    assert layer(x[:, :2], scope, x).shape == (2, 2, WIDTH)
