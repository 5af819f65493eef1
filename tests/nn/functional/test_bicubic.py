"""Resizing as MATLAB's imresize: shares computed by hand, edges, and what every resizing keeps."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from vitrail.nn.functional import bicubic
from vitrail.nn.functional.bicubic import cubic, matrix_for, resize_bicubic, resize_levels, resizing_matrix

QUARTERS = [-9 / 128, 111 / 128, 29 / 128, -3 / 128]  # k(5/4), k(1/4), k(3/4), k(7/4), by hand


def test_the_kernel_at_places_computed_by_hand():
    found = cubic(np.array([0, 0.25, 0.75, 1, 1.25, -1.25, 1.75, 2, 2.5]))
    np.testing.assert_allclose(found, [1, 111 / 128, 29 / 128, 0, -9 / 128, -9 / 128, -3 / 128, 0, 0], atol=1e-15)


def test_enlarging_twice_takes_four_neighbors():
    """Pixel 6 of 14 lies at 2.75, a quarter before pixel 3; pixel 7 at 3.25, a quarter behind it."""
    matrix = resizing_matrix(7, 14, 2.0)
    np.testing.assert_allclose(matrix[7, 2:6], QUARTERS, atol=1e-7)
    np.testing.assert_allclose(matrix[6, 1:5], QUARTERS[::-1], atol=1e-7)
    assert np.count_nonzero(matrix[6]) == np.count_nonzero(matrix[7]) == 4


def test_halving_averages_over_eight():
    """Pixel 3 of 7 lies at 6.5, between 6 and 7; the kernel is twice as wide, so its shares are halves of the same numbers."""
    expected = np.array([QUARTERS[3], QUARTERS[0], QUARTERS[2], QUARTERS[1]]) / 2
    np.testing.assert_allclose(resizing_matrix(14, 7, 0.5)[3, 3:11], [*expected, *expected[::-1]], atol=1e-7)


def test_edges_go_on_as_their_mirror_image():
    """Pixel 0 of the enlarged side lies at -0.25: pixels -2 and -1 are pixels 1 and 0 again."""
    first = resizing_matrix(5, 10, 2.0)[0]
    np.testing.assert_allclose(first[:3], [QUARTERS[2] + QUARTERS[1], QUARTERS[3] + QUARTERS[0], 0], atol=1e-7)
    assert (resizing_matrix(1, 3, 3.0) == 1).all()


@given(st.integers(1, 40), st.sampled_from([1 / 8, 1 / 4, 1 / 3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0]))
def test_shares_sum_to_one_and_know_no_direction(side, scale):
    matrix = resizing_matrix(side, m := int(np.ceil(scale * side - 1e-9)), scale)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-6)
    if abs(m - scale * side) < 1e-9:  # else the last pixel lies partly outside, as it does in MATLAB
        np.testing.assert_allclose(matrix[::-1, ::-1], matrix, atol=1e-6)


def test_a_slope_stays_one_away_from_edges():
    ramp = torch.arange(20.0)[None, None, :, None].expand(1, 1, 20, 3)
    assert_close(resize_bicubic(ramp, 2.0)[0, 0, 6:-6, 0], torch.arange(40.0)[6:-6] / 2 - 0.25)
    assert_close(resize_bicubic(ramp, 0.5)[0, 0, 3:-3, 0], torch.arange(10.0)[3:-3] * 2 + 0.5)


def test_sides_are_rounded_up_and_sizes_are_met():
    images = torch.rand(2, 3, 11, 7)
    assert resize_bicubic(images, 0.5).shape == (2, 3, 6, 4)
    assert resize_bicubic(images, (5, 19)).shape == (2, 3, 5, 19)
    assert resize_bicubic(torch.rand(1, 1, 9, 3), 1 / 3).shape == (1, 1, 3, 1)  # 9 * (1 / 3) must not become 4
    assert_close(resize_bicubic(images, 1.0), images)


def test_bytes_are_rounded_after_each_side_height_first():
    """Columns of equal pixels become the same by either order; of these four the height gives 0.5 -> 1 everywhere."""
    image = torch.tensor([[0.0, 0.0], [1.0, 1.0]])[None, None] / 255
    tall = resize_bicubic(255 * image, (1, 2))
    assert_close(tall, torch.full((1, 1, 1, 2), 0.5))
    assert_close(255 * resize_levels(image, (1, 1)), torch.ones(1, 1, 1, 1))
    levels = torch.randint(0, 256, (1, 3, 16, 12)) / 255
    small = resize_levels(levels, 0.5)
    assert_close(255 * small, (255 * small).round())
    assert (small - resize_bicubic(levels, 0.5).clamp(0, 1)).abs().max() < 2 / 255
    assert not torch.equal(small, resize_levels(levels.mT, 0.5).mT)  # the order is seen


def test_what_is_kept_is_bounded_and_of_use_in_training_too():
    with torch.inference_mode():
        resize_bicubic(torch.rand(1, 1, 13, 17), 2.0)
    images = torch.rand(1, 1, 13, 17, requires_grad=True)
    resize_bicubic(images, 2.0).sum().backward()
    assert images.grad is not None
    before = bicubic._kept.cache_info().currsize
    matrix_for(4096, 2048, 0.5)
    assert bicubic._kept.cache_info().currsize == before <= bicubic._kept.cache_info().maxsize == 64


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_type_is_the_images(dtype):
    assert resize_bicubic(torch.rand(1, 1, 8, 8, dtype=dtype), 0.5).dtype == dtype
