"""What a place of a volume reads: shares on its grid, in the window around it, for both kinds of models."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain.record import record
from vitrail.explain.voxels import label_volume, look_at_voxel, middle_of_largest

SMALL = {"width": 8, "heads": 2, "patch": 4, "image_size": (8, 12, 8), "num_classes": 3}


@pytest.fixture(scope="module", params=["unetr_micro", "convfree_micro"])
def model(request):
    torch.manual_seed(0)
    more = {"depth": 3, "features": 2} if request.param == "unetr_micro" else {"depth": 2}
    return vt.create_model(request.param, **SMALL, **more).eval()


def volume(*size):
    return np.random.default_rng(0).random(size, np.float32)


def test_every_map_is_shares_of_the_window_around_the_place(model):
    scan, place = volume(17, 19, 11), (9, 3, 10)
    look = look_at_voxel(model, scan, place)
    assert len(look.layers) == model.config.depth
    grid = (3, 3, 3) if model.architecture == "convolution_free" else (2, 3, 2)
    for maps in look.layers:
        assert maps.shape == (2, *grid)
        assert_close(maps.sum((1, 2, 3)), torch.ones(2))
    for at, begin, side in zip(place, look.begin, grid, strict=True):
        assert begin <= at < begin + side * look.patch


def test_the_asking_patch_is_the_place_of_the_whole(model):
    """Rows of a recording by hand, for a place whose window is the volume itself."""
    scan = volume(8, 12, 8)
    look = look_at_voxel(model, scan, (5, 9, 2))  # patch 1 2 0
    with torch.no_grad(), record(model) as seen:
        model(torch.from_numpy(scan)[None, None])
    token = (1 * 3 + 2) * 2 + 0
    row = seen.layers[-1][token, :, 13] if model.architecture == "convolution_free" else seen.layers[-1][0, :, token]
    assert_close(look.layers[-1].flatten(1), row)


def test_labels_are_the_models_and_doubts_from_0_to_1(model):
    scan = volume(8, 12, 8)
    found = label_volume(model, scan)
    with torch.no_grad():
        expected = model(torch.from_numpy(scan)[None, None])[0].argmax(0)
    assert (found.classes == expected.numpy()).all()
    assert 0 <= found.unsure.min() <= found.unsure.max() <= 1


def test_the_middle_of_the_largest_part_is_in_it():
    classes = np.zeros((9, 9, 9), np.uint8)
    classes[0:2, 0:2, 0:2] = 1
    classes[4:9, 4:9, 4] = 2
    assert middle_of_largest(classes) == (6, 6, 4)
    assert middle_of_largest(classes, 1) in {(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)}
    assert middle_of_largest(np.zeros((4, 6, 8), np.uint8)) == (2, 3, 4)
    ring = np.ones((5, 5, 1), np.uint8)
    ring[1:4, 1:4] = 0
    assert ring[middle_of_largest(ring)] == 1


def test_a_place_outside_is_refused(model):
    with pytest.raises(vt.VitrailError, match="the voxel 3 12 2 is outside: y goes from 0 to 11"):
        look_at_voxel(model, volume(8, 12, 8), (3, 12, 2))
