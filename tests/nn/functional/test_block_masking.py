"""Blocks of hidden patches: exactly as many as asked, in rectangles, decided by the numbers alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.functional.masking import BLOCKS, hide_blocks, inside


@given(
    rows=st.integers(1, 15),
    columns=st.integers(1, 15),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**31),
    blocks=st.integers(0, 40),
)
@settings(max_examples=60)
def test_the_asked_share_is_met_exactly(rows, columns, share, seed, blocks):
    count = round(share * rows * columns)
    numbers = torch.rand(3, blocks, 4, generator=torch.Generator().manual_seed(seed))
    hidden = hide_blocks(numbers, (rows, columns), count)
    assert hidden.shape == (3, rows * columns)
    assert hidden.sum(1).tolist() == [count] * 3


def test_the_first_block_by_hand():
    """A quarter of 6x6: from 16/196 · 36 = 2.94 to 9 cells. Near 1 that is 9; at the middle of the aspects 3x3, of 4 places each way."""
    numbers = torch.full((1, BLOCKS, 4), 0.5)
    numbers[0, 0] = torch.tensor([0.999, 0.5, 0.25, 0.75])
    first = hide_blocks(numbers[:, :1], (6, 6), 9).view(6, 6)
    expected = torch.zeros(6, 6, dtype=torch.bool)
    expected[1:4, 3:6] = True
    assert torch.equal(first, expected)


def test_the_last_block_is_cut_row_by_row_and_the_rest_comes_from_the_top():
    whole = torch.tensor([[[0.999, 0.5, 0.0, 0.0]]])
    assert hide_blocks(whole, (4, 4), 15, smallest=1.0)[0].tolist() == [True] * 15 + [False]
    assert hide_blocks(torch.empty(1, 0, 4), (4, 4), 3)[0].tolist() == [True] * 3 + [False] * 13


def test_an_image_does_not_depend_on_the_others():
    numbers = torch.rand(5, BLOCKS, 4, generator=torch.Generator().manual_seed(1))
    together = hide_blocks(numbers, (8, 11), 35)
    for number in range(5):
        assert torch.equal(together[number], hide_blocks(numbers[number : number + 1], (8, 11), 35)[0])


def test_hidden_cells_stand_together():
    """Of random cells 40 % of the neighbors are hidden too; of these blocks far more."""
    numbers = torch.rand(200, BLOCKS, 4, generator=torch.Generator().manual_seed(2))
    hidden = hide_blocks(numbers, (14, 14), 78).view(200, 14, 14)
    alike = (hidden[:, :, 1:] & hidden[:, :, :-1]).sum() / hidden[:, :, :-1].sum()
    assert alike > 0.75


def test_places_of_a_line():
    found = inside(torch.arange(5), torch.tensor([0.0, 0.999]), torch.tensor([2.0, 3.0]))
    assert_close(found, torch.tensor([[True, True, False, False, False], [False, False, True, True, True]]))


def test_more_than_there_are():
    with pytest.raises(VitrailError, match="of 4 cells 5 cannot be hidden"):
        hide_blocks(torch.rand(1, 1, 4), (2, 2), 5)
