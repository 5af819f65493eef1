"""PSNR, SSIM and Y: by hand, and against a plain loop over windows."""

import math

import numpy as np
import pytest

from vitrail.learn.metrics.psnr import crop_border, psnr, to_luma
from vitrail.learn.metrics.ssim import gaussian, ssim


def test_psnr_by_hand():
    a = np.zeros((4, 5, 3), dtype=np.uint8)
    b = a.copy()
    b[1, 2] = 30  # mean square 30^2 / 20
    assert psnr(a, b) == pytest.approx(10 * math.log10(255**2 / 45))
    assert psnr(b, a) == psnr(a, b)  # bytes do not wrap around
    assert psnr(a / 255, b / 255, peak=1.0) == pytest.approx(psnr(a, b))
    assert psnr(a, a) == math.inf


def test_the_border_is_left_out():
    a, b = np.zeros((6, 7)), np.zeros((6, 7))
    b[0] = b[:, -1] = 99
    b[2, 2] = 5
    assert psnr(a, b, border=1) == pytest.approx(10 * math.log10(255**2 / (25 / 20)))
    assert crop_border(a, 2).shape == (2, 3)
    assert crop_border(a, 3).shape == (6, 7)  # nothing would be left


def test_luma_runs_from_16_to_235_and_bytes_are_rounded():
    colors = np.array([[[0, 0, 0], [255, 255, 255], [255, 0, 0], [10, 20, 30]]], dtype=np.uint8)
    by_hand = 16 + (65.481 * 10 + 128.553 * 20 + 24.966 * 30) / 255
    np.testing.assert_allclose(to_luma(colors.astype(float))[0], [16, 235, 81.481, by_hand])
    np.testing.assert_array_equal(to_luma(colors)[0], [16, 235, 81, round(by_hand)])


def test_the_window_of_ssim_has_the_published_width():
    """11 weights of a Gaussian with sigma 1.5, which sum to 1  [Wang+ 2004, section III.B]."""
    assert gaussian(11) == pytest.approx(np.array([0.00103, 0.00760, 0.03600, 0.10936, 0.21301, 0.26601, 0.21301, 0.10936, 0.03600, 0.00760, 0.00103]), abs=5e-6)  # fmt: skip


def slow_ssim(a, b):
    """[Wang+ 2004], window by window, with a window of its own."""
    line = np.exp(-(np.arange(-5.0, 6.0) ** 2) / (2 * 1.5**2))
    weights = np.outer(line, line) / line.sum() ** 2
    c1, c2 = 2.55**2, 7.65**2
    found = []
    for top in range(a.shape[0] - 10):
        for left in range(a.shape[1] - 10):
            x, y = a[top : top + 11, left : left + 11], b[top : top + 11, left : left + 11]
            mx, my = (weights * x).sum(), (weights * y).sum()
            vx, vy, c = (weights * (x - mx) ** 2).sum(), (weights * (y - my) ** 2).sum(), (weights * (x - mx) * (y - my)).sum()
            found.append((2 * mx * my + c1) * (2 * c + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2)))
    return np.mean(found)


def test_ssim_against_a_loop():
    generator = np.random.default_rng(0)
    a = generator.uniform(0, 255, (17, 14))
    b = (a + generator.normal(0, 40, a.shape)).clip(0, 255)
    assert ssim(a, b) == pytest.approx(slow_ssim(a, b), abs=1e-12)
    assert 0.2 < ssim(a, b) < 0.99
    color = np.stack([a, b, a], axis=2)
    assert ssim(color, np.stack([a, a, b], axis=2)) == pytest.approx((1 + 2 * slow_ssim(a, b)) / 3)
    assert ssim(a, b, border=1) == pytest.approx(slow_ssim(a[1:-1, 1:-1], b[1:-1, 1:-1]))


def test_ssim_of_constants_and_of_images_smaller_than_its_window():
    """Without variance only the means count: (2 m n + C1) / (m^2 + n^2 + C1)."""
    a, b = np.full((12, 12), 100.0), np.full((12, 12), 50.0)
    assert ssim(a, b) == pytest.approx((2 * 100 * 50 + 2.55**2) / (100**2 + 50**2 + 2.55**2))
    assert ssim(a, a) == 1
    assert ssim(a[:3, :5], b[:3, :5]) == pytest.approx(ssim(a, b))
