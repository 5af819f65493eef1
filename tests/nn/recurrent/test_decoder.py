"""The recurrent decoder: word by word as all at once, what is fed, and what it does not see."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.nn.recurrent.attention import GlobalAttention, make_score
from vitrail.nn.recurrent.cell import make_layers
from vitrail.nn.recurrent.decoder import Carried, RecurrentDecoder

WIDTH = 6


def make(cell="lstm", *, attends=True, feeding=False):
    layers = make_layers(cell, WIDTH * (1 + feeding), WIDTH, depth=2)
    attention = GlobalAttention(make_score("general", WIDTH)) if attends else None
    decoder = RecurrentDecoder(WIDTH, layers=layers, attention=attention, feeding=feeding).eval()
    carried = Carried(tuple(torch.randn(2, 3, WIDTH) for _ in range(2 if cell == "lstm" else 1)))
    memory = attention.prepare(torch.randn(3, 5, WIDTH), torch.ones(3, 5, dtype=torch.bool)) if attention else None
    return decoder, carried, memory


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("how", [{"attends": False}, {}, {"feeding": True}])
def test_word_by_word_is_all_at_once(cell, how):
    decoder, carried, memory = make(cell, **how)
    x = torch.randn(3, 7, WIDTH)
    whole = decoder(x, carried, memory)
    assert whole.carried.words == 7
    for word in range(7):
        out = decoder(x[:, word : word + 1], carried, memory)
        carried = out.carried
        assert_close(out.x[:, 0], whole.x[:, word], atol=1e-5, rtol=1e-5)
    for one, other in zip(carried.hidden, whole.carried.hidden, strict=True):
        assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("how", [{"attends": False}, {}, {"feeding": True}])
def test_no_word_sees_a_later_one(how):
    decoder, carried, memory = make(**how)
    x = torch.randn(3, 7, WIDTH, requires_grad=True)
    [gradient] = torch.autograd.grad(decoder(x, carried, memory).x[:, 3].sum(), x)
    assert gradient[:, 4:].abs().max() == 0
    assert gradient[:, :4].abs().amax((0, 2)).min() > 0


def test_output_by_hand():
    """o = tanh(W [c; h])  [Luong+ 2015, eq. 5]."""
    decoder, carried, memory = make()
    x = torch.randn(3, 1, WIDTH)
    out = decoder(x, carried, memory)
    hidden = out.carried.hidden[0][-1]
    context = torch.einsum("bm,bmw->bw", out.weights[:, 0], memory.states)
    assert_close(out.x[:, 0], torch.tanh(torch.cat([context, hidden], dim=1) @ decoder.combine.weight.T))


def test_what_is_fed_is_the_last_output():
    decoder, carried, memory = make(feeding=True)
    x = torch.randn(3, 2, WIDTH)
    first = decoder(x[:, :1], carried, memory)
    assert_close(first.carried.fed, first.x[:, 0])
    second = decoder(x[:, 1:], first.carried, memory)
    other = decoder(x[:, 1:], first.carried._replace(fed=torch.zeros(3, WIDTH)), memory)
    assert (second.x - other.x).abs().max() > 1e-3


def test_rows_are_chosen_everywhere():
    decoder, carried, memory = make(feeding=True)
    rows = torch.tensor([2, 2, 0, 1])
    x = torch.randn(3, 2, WIDTH)
    after = decoder(x[:, :1], carried, memory).carried
    expected = decoder(x[:, 1:], after, memory).x[rows]
    assert_close(decoder(x[rows, 1:], after.choose(rows), memory.choose(rows)).x, expected)
