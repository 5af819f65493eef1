"""Row A7, ALiBi: slopes by hand, distances on a line and on a grid."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.nn.positions.alibi import Alibi, alibi_slopes
from vitrail.tokens import Places


def test_slopes_by_hand():
    assert alibi_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert alibi_slopes(1) == [1 / 256]
    assert alibi_slopes(2) == [1 / 16, 1 / 256]
    # three heads: those of two, then the first of four, 2^-2; six: those of four, then the first and third of eight
    assert alibi_slopes(3) == [1 / 16, 1 / 256, 1 / 4]
    assert alibi_slopes(6) == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]


def test_distances_by_hand():
    places = Places((2, 3), prefix=1)
    grid = Alibi(2).prepare(places, places)
    assert grid.shape == (1, 2, 7, 7)
    assert not grid[:, :, 0].any()
    assert not grid[:, :, :, 0].any()
    # from cell (0, 0) to (0, 0) (0, 1) (0, 2) (1, 0) (1, 1) (1, 2)
    assert_close(grid[0, 0, 1, 1:], -torch.tensor([0, 1, 2, 1, 2**0.5, 5**0.5]) / 16)
    line = Alibi(2, line=True).prepare(places, places)
    assert_close(line[0, 1, 2, 1:], -torch.tensor([1.0, 0, 1, 2, 3, 4]) / 256)
    assert_close(line, line.transpose(2, 3))


@pytest.mark.parametrize("line", [False, True])
def test_a_larger_grid_keeps_what_a_smaller_one_has(line):
    """Extrapolation: the bias of a pair does not depend on the size of the grid (on a line: on more rows)."""
    small, large = Places((2, 4)), Places((3, 4))
    assert_close(
        Alibi(3, line=line).prepare(large, large)[:, :, :8, :8].contiguous(), Alibi(3, line=line).prepare(small, small)
    )
