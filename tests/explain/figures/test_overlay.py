"""A map over its image: its pixels, its shape, and its scale."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from vitrail.explain.figures.overlay import MUCH, draw_overlay, overlay, scale, scale_end, times_even
from vitrail.rendering import to_png, to_svg


def words_of(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_an_overlay_keeps_the_shape_of_the_image_and_is_strongest_where_the_map_is():
    shares = np.zeros((3, 5))
    shares[0, 4] = 9.0
    drawn = overlay(np.full((30, 50, 3), 100, dtype=np.uint8), shares, 4.0)
    assert drawn.shape == (90, 150, 3)  # enlarged threefold, not squashed
    np.testing.assert_array_equal(drawn[60:, :60], np.full((30, 60, 3), 80))  # nothing: 30 + 0.5 * 100
    np.testing.assert_allclose(drawn[5, 145], 0.15 * 80 + 0.85 * MUCH, atol=1)  # beyond the scale: its end


@pytest.mark.parametrize(
    ("size", "largest", "expected"),
    [
        ((200, 300), None, (200, 300)),
        ((2000, 3000), None, (2000, 3000)),
        ((2000, 3000), 600, (400, 600)),
        ((64, 16), None, (128, 32)),
    ],
)
def test_an_overlay_has_the_images_own_pixels_by_default(size, largest, expected):
    drawn = overlay(np.zeros((*size, 1), dtype=np.uint8), torch.ones(2, 3), 2.0, largest=largest)
    assert drawn.shape == (*expected, 3)


def test_the_map_is_smooth():
    shares = np.zeros((4, 4), dtype=np.float32)
    shares[1, 2] = 4.0
    red = overlay(np.full((256, 256, 1), 60, dtype=np.uint8), shares, 4.0)[..., 0].astype(int)
    assert np.abs(np.diff(red, axis=0)).max() <= 6  # no edge where a patch ends
    assert np.abs(np.diff(red, axis=1)).max() <= 6
    assert np.unravel_index(red.argmax(), red.shape)[0] in range(64, 128)


def test_the_scale_runs_from_nothing_to_its_end():
    ramp = scale(3.0)[0].astype(int)
    assert (ramp[0] == 85).all()
    np.testing.assert_allclose(ramp[-1], 0.15 * 85 + 0.85 * MUCH, atol=2)
    assert (np.diff(ramp[:, 0]) >= 0).all()  # red only rises


def test_times_an_even_share():
    maps = torch.tensor([[[0.5, 0.25], [0.25, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    np.testing.assert_allclose(times_even(maps), [[[2, 1], [1, 0]], [[0, 0], [0, 0]]])
    assert scale_end(np.array([0.2, 1.7])) == 2
    assert scale_end(np.array([250.3])) == 251


@pytest.mark.parametrize("size", [(480, 640), (640, 420), (1000, 300)])
def test_a_saved_figure_has_a_pixel_for_each_of_the_image(size):
    image = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    shares = np.random.default_rng(1).random((4, 6))
    figure = draw_overlay(image, shares, words="relevance of the last layer")
    page = np.asarray(Image.open(io.BytesIO(to_png(figure))).convert("RGB"))
    expected = overlay(image, times_even(shares), scale_end(times_even(shares)), smallest=420)
    left = (page.shape[1] - size[1]) // 2
    top = round(144 * figure.axes[0].images[0].get_extent()[3])
    np.testing.assert_allclose(page[top : top + size[0], left : left + size[1]].astype(int), expected.astype(int), atol=1)


def test_the_legend_tells_the_scales_true_end():
    figure = draw_overlay(np.zeros((40, 60, 1), dtype=np.uint8), torch.tensor([[0.9, 0.1]]))
    assert "0" in words_of(figure)
    assert "2 times an even share" in words_of(figure)
    shared = draw_overlay(np.zeros((40, 60, 1), dtype=np.uint8), torch.tensor([[0.9, 0.1]]), highest=8.0, query=(0, 1))
    assert "8 times an even share" in words_of(shared)
    clipped = draw_overlay(np.zeros((40, 60, 1), dtype=np.uint8), torch.tensor([[0.9, 0.1]]), highest=1.5)
    assert "1.5 or more times an even share" in words_of(clipped)
    assert [patch.get_xy() for patch in shared.axes[0].patches] == [(210 / 144, 0)] * 2  # the second of two cells, 420 pixels
    assert "<svg" in to_svg(shared)
