"""Row A7, Swin's table: against a loop, and against the index of transformers' Swin."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.nn.functional.offsets import offset_rows
from vitrail.nn.positions.relative_table import RelativeTable
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
