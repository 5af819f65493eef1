"""Row B1: cutting into patches and back, on any number of axes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.errors import VitrailError
from vitrail.nn.functional.patches import patchify, unpatchify

SIDES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=4)


@settings(max_examples=60)
@given(SIDES, st.integers(1, 3), st.integers(1, 3))
def test_unpatchify_undoes_patchify(sides, batch, channels):
    grid, patch = (tuple(part) for part in zip(*sides, strict=True))
    x = torch.randn(batch, channels, *(g * p for g, p in sides))
    patches = patchify(x, patch)
    assert patches.shape == (batch, torch.tensor(grid).prod(), channels * torch.tensor(patch).prod())
    assert torch.equal(unpatchify(patches, patch, grid), x)


def test_patches_stand_in_raster_order_and_hold_their_own_pixels():
    x = torch.arange(2 * 4 * 6).reshape(1, 2, 4, 6)
    patches = patchify(x, (2, 3))
    assert torch.equal(patches[0, 1], x[0, :, 0:2, 3:6].flatten())
    assert torch.equal(patches[0, 2], x[0, :, 2:4, 0:3].flatten())


@pytest.mark.parametrize(
    "size, patch, words", [((5, 6), (2, 3), "multiples"), ((1, 6), (2, 3), "smaller"), ((4,), (2, 3), "axes")]
)
def test_what_does_not_fit_is_said(size, patch, words):
    with pytest.raises(VitrailError, match=words):
        patchify(torch.zeros(1, 1, *size), patch)


def test_unpatchify_refuses_a_grid_that_does_not_hold_the_patches():
    with pytest.raises(VitrailError, match="do not fill"):
        unpatchify(torch.zeros(1, 7, 6), (2, 3), (2, 3))
