"""Swin-V2's continuous bias."""

import torch
from torch.testing import assert_close

from vitrail.nn.positions.continuous_bias import ContinuousBias, log_offsets
from vitrail.scope import Scope
from vitrail.tokens import Places


def bias_of(position, queries, keys):
    scope = Scope(queries=queries, keys=keys, position=position, prepared=position.prepare(queries, keys))
    n, m = (places.prefix + len(places.coordinates()[0]) for places in (queries, keys))
    return position.bias(torch.zeros(1, position.heads, n, 2), torch.zeros(1, position.heads, m, 2), scope)


def test_offsets_by_hand():
    """±8 at the outermost of a window of 3: sign(8) log2(9) / 3; half of it: log2(5) / 3."""
    found = log_offsets((0, 2), (1, 3))
    far, half = torch.tensor(9.0).log2() / 3, torch.tensor(5.0).log2() / 3
    assert_close(found[:, 1], torch.stack([-far, -half, torch.tensor(0.0), half, far]))
    assert (found[:, 0] == 0).all()


def test_every_pair_is_asked_of_the_network():
    torch.manual_seed(0)
    position = ContinuousBias(3, grid=(3, 4), hidden=11)
    found = bias_of(position, Places((3, 4)), Places((3, 4)))
    rows, columns = torch.arange(12) // 4, torch.arange(12) % 4
    down, right = (rows[:, None] - rows) * (8 / 2), (columns[:, None] - columns) * (8 / 3)
    asked = torch.stack([axis.sign() * (axis.abs() + 1).log2() / 3 for axis in (down, right)], -1)
    assert_close(found[0], 16 * position.mlp(asked).sigmoid().permute(2, 0, 1))
    assert (found > 0).all()
    assert (found < 16).all()


def test_a_part_of_the_window_has_the_same_numbers():
    position = ContinuousBias(2, grid=(4, 4), hidden=5)
    cells = torch.tensor([[0, 1, 4, 5, 8, 9]])
    part = bias_of(position, Places((4, 4), index=cells), Places((4, 4), index=cells))
    whole = bias_of(position, Places((4, 4)), Places((4, 4)))
    assert_close(part, whole[:, :, cells[0]][..., cells[0]])


def test_pairs_with_a_prefix_token_have_none():
    found = bias_of(ContinuousBias(2, grid=(2, 2), hidden=5), Places((2, 2), 1), Places((2, 2), 1))
    assert (found[:, :, 0] == 0).all()
    assert (found[..., 0] == 0).all()
    assert (found[:, :, 1:, 1:] > 0).all()
