"""Cutting a grid into windows: inverse, shift, seam, bounds. Every size is another prime where it can be."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.functional import windows as module
from vitrail.nn.functional.windows import (
    cut_windows,
    fit_windows,
    join_windows,
    merge,
    partition,
    seam_mask,
    shift_cells,
    whole_windows,
    window_cells,
)  # fmt: skip
from vitrail.tokens import Windows

sides = st.integers(1, 13)


@given(rows=st.integers(1, 5), columns=st.integers(1, 5), window=st.tuples(st.integers(1, 5), st.integers(1, 5)))
@settings(max_examples=60)
def test_merge_is_the_inverse_of_partition(rows, columns, window):
    x = torch.randn(2, rows * window[0], columns * window[1], 3)
    cut = partition(x, window)
    assert cut.shape == (2 * rows * columns, window[0] * window[1], 3)
    assert torch.equal(merge(cut, window, x.shape[1:3]), x)


@given(grid=st.tuples(sides, sides), window=st.tuples(sides, sides), data=st.data())
@settings(max_examples=100)
def test_any_grid_window_and_shift_come_back(grid, window, data):
    shift = tuple(data.draw(st.integers(0, side - 1)) for side in window)
    windows = fit_windows(grid, window, shift)
    x = torch.randn(2, *grid, 3)
    cut = cut_windows(x, windows)
    assert torch.equal(join_windows(cut, windows), x)
    cells = window_cells(windows)  # and each cell stands once, where it says
    assert sorted(cells[cells >= 0].tolist()) == list(range(grid[0] * grid[1]))
    expected = torch.cat([x.flatten(1, 2), torch.zeros(2, 1, 3)], 1)[:, cells]  # -1: the zeros at the end
    assert torch.equal(cut.view(2, *cells.shape, 3), expected)


def test_partition_by_hand():
    x = torch.arange(24).view(1, 4, 6, 1)
    assert partition(x, (2, 3))[..., 0].tolist() == [
        [0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11], [12, 13, 14, 18, 19, 20], [15, 16, 17, 21, 22, 23]
    ]  # fmt: skip
    with pytest.raises(VitrailError, match="a grid of 4x6 is not made of whole windows of 3x3"):
        partition(x, (3, 3))


def test_shift_by_hand():
    x = torch.arange(6).view(1, 2, 3, 1)
    assert shift_cells(x, (1, 1))[0, ..., 0].tolist() == [[4, 5, 3], [1, 2, 0]]


def test_a_grid_within_one_window_is_one_window_without_a_shift():
    assert fit_windows((3, 5), (7, 7), (3, 3)) == Windows((3, 5), (3, 5), (0, 0))
    assert fit_windows((7, 20), (7, 7), (3, 3)) == Windows((7, 20), (7, 7), (0, 0))
    assert fit_windows((8, 20), (7, 7), (3, 3)) == Windows((8, 20), (7, 7), (3, 3))
    assert whole_windows((8, 20), (7, 5)) == (14, 20)


def test_no_seam_without_a_shift():
    assert seam_mask((8, 8), (4, 4), (0, 0)) is None


@given(grid=st.tuples(sides, sides), window=st.tuples(st.integers(2, 5), st.integers(2, 5)), data=st.data())
@settings(max_examples=60)
def test_cells_see_each_other_if_and_only_if_the_shift_did_not_bring_them_together(grid, window, data):
    """Two cells of one shifted window that the roll brought together are farther apart in the image than a window."""
    shift = tuple(data.draw(st.integers(1, side - 1)) for side in window)
    height, width = whole_windows(grid, window)
    mask = seam_mask(grid, window, shift)
    cells = window_cells(Windows((height, width), window, shift))
    rows, columns = cells // width, cells % width
    near = ((rows[:, :, None] - rows[:, None]).abs() < window[0]) & ((columns[:, :, None] - columns[:, None]).abs() < window[1])
    if height > window[0] and width > window[1]:  # else a cell and its image are within one window anyway
        assert torch.equal(mask, near)
    assert mask.diagonal(dim1=1, dim2=2).all()
    assert torch.equal(mask, mask.transpose(1, 2))


def test_the_seam_by_hand():
    """A line of 4 in windows of 2, shifted by 1: 1 2 | 3 0, and 3 and 0 were never neighbors."""
    mask = seam_mask((1, 4), (1, 2), (0, 1))
    assert mask.tolist() == [[[True, True], [True, True]], [[True, False], [False, True]]]


def test_what_is_kept_is_bounded():
    module._corners.cache_clear()
    for side in range(10, 110):
        seam_mask((side, side + 1), (8, 8), (4, 4))
    kept = module._corners.cache_info()
    assert kept.currsize == kept.maxsize == 64
    assert module._corners((100, 101), (8, 8), (4, 4)).nbytes == 104 * 104  # a byte a cell


def test_a_mask_made_in_inference_mode_is_no_poison():
    module._corners.cache_clear()
    with torch.inference_mode():
        seam_mask((9, 9), (4, 4), (2, 2))
    bias = torch.zeros(9, 16, 16, requires_grad=True)
    torch.where(seam_mask((9, 9), (4, 4), (2, 2)), bias, -torch.inf).exp().sum().backward()
    assert_close(bias.grad, seam_mask((9, 9), (4, 4), (2, 2)).float())
