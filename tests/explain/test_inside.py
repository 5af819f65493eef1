"""The share of a map inside a mask or box, against chance."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain.inside import boxes_to_masks, enlarge, share_inside


def test_an_even_map_has_what_chance_gives():
    mask = torch.zeros(2, 12, 20, dtype=torch.bool)
    mask[0, :6], mask[1, :3, :4] = True, True
    found = share_inside(torch.ones(2, 3, 5), mask)
    assert_close(found.share, torch.tensor([0.5, 0.05]))
    assert_close(found.chance, torch.tensor([0.5, 0.05]))
    assert_close(found.ratio, torch.ones(2))


def test_a_map_at_the_images_own_resolution_by_hand():
    maps = torch.tensor([[[3.0, 0.0], [1.0, 0.0]]])
    mask = torch.tensor([[[True, True], [False, False]]])
    found = share_inside(maps, mask)
    assert_close((found.share, found.chance, found.ratio), (torch.tensor([0.75]), torch.tensor([0.5]), torch.tensor([1.5])))


def test_enlarged_bilinearly_by_hand():
    """Two cells on four pixels: 1, 3/4, 1/4, 0, of which the left half has seven eighths."""
    mask = torch.tensor([[[True, True, False, False]]])
    assert_close(share_inside(torch.tensor([[[1.0, 0.0]]]), mask).share, torch.tensor([0.875]))


@pytest.mark.parametrize("size", [(30, 50), (7, 11), (2, 3)])
def test_enlarging_is_what_pillow_does(size):
    numbers = np.random.default_rng(0).random((3, 5)).astype(np.float32)
    expected = np.asarray(Image.fromarray(numbers).resize(size[::-1], Image.Resampling.BILINEAR))
    assert_close(enlarge(torch.from_numpy(numbers)[None], size)[0], torch.from_numpy(expected.copy()), atol=1e-5, rtol=0)


def test_boxes_have_the_pixels_whose_centers_they_hold():
    mask = boxes_to_masks(torch.tensor([[1.0, 0.0, 3.0, 2.0], [0.4, 0.6, 1.6, 2.6]]), (3, 4))
    assert mask[0].tolist() == [[False, True, True, False], [False, True, True, False], [False] * 4]
    assert mask[1].tolist() == [[False] * 4, [True, True, False, False], [True, True, False, False]]
    found = share_inside(torch.ones(2, 3, 4), torch.tensor([[1.0, 0.0, 3.0, 2.0], [0.0, 0.0, 4.0, 3.0]]), size=(3, 4))
    assert_close(found.share, torch.tensor([4 / 12, 1.0]))


def test_ends():
    empty = share_inside(torch.ones(1, 2, 2), torch.zeros(1, 4, 4, dtype=torch.bool))
    assert empty.share.item() == 0
    assert empty.ratio.isnan().all()
    nothing = share_inside(torch.zeros(1, 2, 2), torch.tensor([[0.0, 0.0, 2.0, 4.0]]), size=(4, 4))
    assert nothing.ratio.item() == 1
    with pytest.raises(vt.VitrailError, match="negative"):
        share_inside(-torch.ones(1, 2, 2), torch.ones(1, 4, 4, dtype=torch.bool))
    with pytest.raises(vt.VitrailError, match="size"):
        share_inside(torch.ones(1, 2, 2), torch.zeros(1, 4))
