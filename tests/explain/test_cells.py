"""From tokens and pixels to cells."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import vitrail as vt
from vitrail.explain.cells import cell_tokens, pixel_cells, spatial, sum_in_cells, to_grid
from vitrail.tokens import Places


def test_prefix_tokens_are_left_out_and_elements_summed():
    shares = torch.arange(14.0)[None]  # 2 prefix tokens, 2 elements of 2x3 cells
    expected = torch.tensor([[[2.0 + 8, 3 + 9, 4 + 10], [5 + 11, 6 + 12, 7 + 13]]])
    assert torch.equal(to_grid(shares, Places((2, 2, 3), prefix=2)), expected)


def test_tokens_that_were_kept_are_put_back_into_their_cells():
    index = torch.tensor([[5, 0], [1, 2]])
    found = to_grid(torch.tensor([[9.0, 1, 2], [9, 3, 4]]), Places((2, 3), prefix=1, index=index))
    assert found.tolist() == [[[2, 0, 0], [0, 0, 1]], [[0, 3, 4], [0, 0, 0]]]


def test_the_tokens_of_a_cell():
    assert cell_tokens((1, 2), Places((2, 3), prefix=2)) == [7]
    assert cell_tokens((1, 2), Places((4, 2, 3))) == [5, 11, 17, 23]
    for wrong in ((2, 0), (0, 3), (-1, 0)):
        with pytest.raises(vt.VitrailError, match="not on the grid of 2 rows and 3 columns"):
            cell_tokens(wrong, Places((2, 3)))
    with pytest.raises(vt.VitrailError, match="no two axes"):
        spatial((7,))


@given(cells=st.integers(1, 9), more=st.integers(0, 40))
def test_pixels_are_shared_among_cells_as_evenly_as_can_be(cells, more):
    found = pixel_cells(cells + more, cells)
    counts = torch.bincount(found, minlength=cells)
    assert (found.diff() >= 0).all()
    assert counts.max() - counts.min() <= 1
    assert counts.min() >= 1


def test_sums_in_cells():
    values = torch.arange(12.0).reshape(1, 2, 6)
    assert sum_in_cells(values, (1, 3)).tolist() == [[[0 + 1 + 6 + 7, 2 + 3 + 8 + 9, 4 + 5 + 10 + 11]]]
    assert sum_in_cells(values, (2, 6)).tolist() == values.tolist()
