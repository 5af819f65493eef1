"""Row A7, Swin's table: against a loop, and against the index of transformers' Swin; and Swin-V2's continuous bias."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.nn.functional.offsets import offset_rows
from vitrail.nn.positions.relative_table import ContinuousBias, RelativeTable, log_offsets
from vitrail.scope import Scope
from vitrail.tokens import Places

HEADS = 3


def bias_of(position, places):
    n = places.prefix + places.coordinates().shape[1]
    q = torch.zeros(1, position.table.shape[1], n, 4)
    return position.bias(q, q, Scope(prepared=position.prepare(places, places)))


@pytest.mark.parametrize("grid", [(7,), (3, 5), (2, 3, 2)])
def test_the_bias_is_a_row_for_each_offset(grid):
    position, places = RelativeTable(HEADS, grid=grid), Places(grid)
    bias, cells = bias_of(position, places), places.coordinates()[0]
    for i, here in enumerate(cells):
        for j, there in enumerate(cells):
            row = 0
            for offset, size in zip((here - there).tolist(), grid, strict=True):
                row = row * (2 * size - 1) + offset + size - 1
            assert torch.equal(bias[0, :, i, j], position.table[row])


def test_the_index_of_transformers_swin():
    swin = pytest.importorskip("transformers.models.swin.modeling_swin")
    theirs = swin.SwinRelativePositionBias(HEADS, (4, 5)).relative_position_index.view(20, 20)
    assert torch.equal(offset_rows(Places((4, 5)), Places((4, 5)), (3, 4), None)[0], theirs)


def test_pairs_with_prefix_tokens_have_three_rows_or_none():
    position = RelativeTable(HEADS, grid=(3, 5), prefix=1)
    bias = bias_of(position, Places((3, 5), prefix=2))[0]
    to_cell, to_prefix, both = position.prefix_table
    assert torch.equal(bias[:, :2, 2:], to_cell[:, None, None].expand(-1, 2, 15))
    assert torch.equal(bias[:, 2:, :2], to_prefix[:, None, None].expand(-1, 15, 2))
    assert torch.equal(bias[:, :2, :2], both[:, None, None].expand(-1, 2, 2))
    without = bias_of(RelativeTable(HEADS, grid=(3, 5)), Places((3, 5), prefix=2))[0]
    assert not without[:, :2].any()
    assert not without[:, :, :2].any()
    assert without[:, 2:, 2:].abs().min() > 0


def test_an_unseen_grid_gets_the_table_resized():
    position = RelativeTable(1, grid=(3, 3))
    with torch.no_grad():
        position.table.copy_((torch.arange(5.0) - 2).repeat(5)[:, None])  # the offset in columns
    bias = bias_of(position, Places((6, 6)))[0, 0].reshape(6, 6, 6, 6)
    assert_close(bias[2, 3, 4, 3], torch.tensor(0.0), atol=1e-5, rtol=0)
    assert bias[0, 4, 0, 2] > bias[0, 3, 0, 2] > 0 > bias[0, 2, 0, 3]
    assert bias.abs().max() < 3  # stretched, not extrapolated


def continuous_of(position, queries, keys):
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
    found = continuous_of(position, Places((3, 4)), Places((3, 4)))
    rows, columns = torch.arange(12) // 4, torch.arange(12) % 4
    down, right = (rows[:, None] - rows) * (8 / 2), (columns[:, None] - columns) * (8 / 3)
    asked = torch.stack([axis.sign() * (axis.abs() + 1).log2() / 3 for axis in (down, right)], -1)
    assert_close(found[0], 16 * position.mlp(asked).sigmoid().permute(2, 0, 1))
    assert (found > 0).all()
    assert (found < 16).all()


def test_a_part_of_the_window_has_the_same_numbers():
    position = ContinuousBias(2, grid=(4, 4), hidden=5)
    cells = torch.tensor([[0, 1, 4, 5, 8, 9]])
    part = continuous_of(position, Places((4, 4), index=cells), Places((4, 4), index=cells))
    whole = continuous_of(position, Places((4, 4)), Places((4, 4)))
    assert_close(part, whole[:, :, cells[0]][..., cells[0]])


def test_pairs_with_a_prefix_token_have_none():
    found = continuous_of(ContinuousBias(2, grid=(2, 2), hidden=5), Places((2, 2), 1), Places((2, 2), 1))
    assert (found[:, :, 0] == 0).all()
    assert (found[..., 0] == 0).all()
    assert (found[:, :, 1:, 1:] > 0).all()
