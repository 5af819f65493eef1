"""The similarity of a model's position rows, and its picture."""

import numpy as np
import pytest
import torch

import vitrail as vt
from vitrail.nn.positions.position import Position
from vitrail.report.positions import SHOWN, draw_similarity, position_similarity, show_positions, spread


def model_with(position, size=(24, 40), **options):
    return vt.create_model(
        "vit_tiny_patch16_224",
        image_size=size,
        patch=8,
        width=24,
        depth=1,
        heads=3,
        num_classes=5,
        position=position,
        **options,
    )


@pytest.mark.parametrize("position", ["learned_1d", "learned_2d", "sinusoidal_1d", "sinusoidal_2d"])
def test_a_cosine_is_symmetric_and_one_with_itself(position):
    maps = position_similarity(model_with(position))
    assert maps.shape == (3, 5, 3, 5)
    flat = maps.reshape(15, 15)
    np.testing.assert_allclose(np.diagonal(flat), 1)
    np.testing.assert_allclose(flat, flat.T)
    assert np.abs(flat).max() <= 1


def test_rows_by_hand():
    model = model_with("learned_1d", size=(8, 24))
    with torch.no_grad():
        model.position.table.zero_()
        model.position.table[0, 0] = 2.0
        model.position.table[1, :2] = 1.0  # 45 degrees from the first; the third row has no direction at all
    np.testing.assert_allclose(position_similarity(model)[0, :, 0], [[1, 0.5**0.5, 0], [0.5**0.5, 1, 0], [0, 0, 0]], atol=1e-7)


def test_a_model_without_added_rows_says_so():
    found = position_similarity(model_with("none"))
    assert found == "The position (none) adds no rows to the tokens, so there are none to compare."
    assert found in show_positions(found)

    class Turning(Position):
        attends = True

    model = model_with("none")
    model.position = Turning()
    assert "(Turning) adds no rows" in position_similarity(model)


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [0]), (7, [*range(7)]), (8, [0, 1, 2, 4, 5, 6, 7]), (14, [0, 2, 4, 6, 9, 11, 13])]
)
def test_large_grids_are_thinned_out_evenly_with_both_ends(count, expected):
    assert spread(count, SHOWN).tolist() == expected


@pytest.mark.parametrize("grid", [(1, 1), (3, 5), (16, 9)])
def test_the_picture_keeps_the_shape_of_the_grid(grid):
    maps = np.random.default_rng(0).uniform(-1, 1, (*grid, *grid))
    axes = draw_similarity(maps).axes[0]
    rows, columns = (len(spread(count, SHOWN)) for count in grid)
    gap = max(1, round(0.12 * max(grid)))
    image = axes.images[0].get_array()
    assert image.shape[:2] == (rows * (grid[0] + gap) - gap, columns * (grid[1] + gap) - gap)
    box = axes.get_window_extent()
    assert box.width / box.height == pytest.approx(image.shape[1] / image.shape[0], rel=1e-3)
    assert len(axes.patches) == rows * columns
