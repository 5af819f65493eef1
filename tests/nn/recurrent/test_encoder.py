"""The recurrent encoder: one state a token, both ways, padding that is never read."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.recurrent.cell import RecurrentEncoder, choose_rows, make_layers, run

KINDS = [("lstm", False), ("lstm", True), ("gru", False), ("gru", True)]
LENGTHS = (5, 2, 7)


def padded(width=3, longest=7):
    mask = torch.arange(longest) < torch.tensor(LENGTHS)[:, None]
    return torch.randn(len(LENGTHS), longest, width), mask


@pytest.mark.parametrize("cell, both", KINDS)
def test_padding_and_the_order_of_a_batch_change_nothing(cell, both):
    encoder = RecurrentEncoder(3, 10, depth=2, cell=cell, bidirectional=both).eval()
    x, mask = padded()
    whole = encoder(x, mask)
    assert whole.states.shape == (3, 7, 10)
    assert len(whole.last) == (2 if cell == "lstm" else 1)
    changed = encoder(torch.where(mask[..., None], x, 9.0), mask)
    assert_close(changed.states, whole.states)
    for row, length in enumerate(LENGTHS):
        alone = encoder(x[row : row + 1, :length], mask[row : row + 1, :length])
        assert_close(alone.states[0], whole.states[row, :length], atol=1e-5, rtol=1e-5)
        for one, all_rows in zip(alone.last, whole.last, strict=True):
            assert_close(one[:, 0], all_rows[:, row], atol=1e-5, rtol=1e-5)
    order = torch.tensor([2, 0, 1])
    turned = encoder(x[order], mask[order])
    assert_close(turned.states, whole.states[order], atol=1e-5, rtol=1e-5)
    for one, other in zip(turned.last, choose_rows(whole.last, order), strict=True):
        assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_last_state_is_the_one_behind_the_last_real_token(cell):
    encoder, (x, mask) = RecurrentEncoder(3, 10, depth=2, cell=cell), padded()
    encoded = encoder(x, mask)
    for row, length in enumerate(LENGTHS):
        assert_close(encoded.last[0][-1, row], encoded.states[row, length - 1])
    assert encoded.states[~mask].abs().max() == 0


def test_both_ways_a_state_sees_all_tokens_and_the_last_one_has_both_ends():
    encoder, (x, mask) = RecurrentEncoder(3, 10, depth=1, bidirectional=True), padded()
    x.requires_grad_()
    encoded = encoder(x, mask)
    assert_close(encoded.last[0][0, 0], torch.cat([encoded.states[0, 4, :5], encoded.states[0, 0, 5:]]))
    [gradient] = torch.autograd.grad(encoded.states[0, 2].sum(), x)
    seen = gradient[0].abs().sum(-1) > 0
    assert seen.tolist() == [True] * 5 + [False] * 2
    one_way = RecurrentEncoder(3, 10, depth=1)
    [gradient] = torch.autograd.grad(one_way(x, mask).states[0, 2].sum(), x)
    assert (gradient[0].abs().sum(-1) > 0).tolist() == [True] * 3 + [False] * 4


def test_an_odd_width_has_no_halves():
    with pytest.raises(VitrailError, match="must be even, half for each direction: got 7"):
        RecurrentEncoder(3, 7, depth=1, bidirectional=True)


def test_a_step_of_an_lstm_by_hand_and_its_forget_gate():
    """c = f c + i g, h = o tanh(c), with all weights 0: gates are sigmoids of the biases, f's 1 at first."""
    layers = make_layers("lstm", 3, 2, depth=1)
    assert_close(layers.bias_ih_l0[2:4], torch.ones(2))
    with torch.no_grad():
        for name, parameter in layers.named_parameters():
            if not name.startswith("bias_ih"):
                parameter.zero_()
        layers.bias_ih_l0.copy_(torch.tensor([0.0, 0.0, 1.0, 1.0, 0.5, 0.5, 0.0, 0.0]))
    before = (torch.zeros(1, 1, 2), torch.full((1, 1, 2), 2.0))
    out, (h, c) = run(layers, torch.randn(1, 1, 3), before)
    cell = torch.tensor(1.0).sigmoid() * 2.0 + 0.5 * torch.tensor(0.5).tanh()
    assert_close(c, cell.expand(1, 1, 2))
    assert_close(h, 0.5 * cell.tanh().expand(1, 1, 2))
    assert_close(out[:, 0], h[0])
