"""Sensitivities from calibration lines, against those that made the k-space."""

import numpy as np
import pytest

from vitrail.data.mri.coils import make_coils
from vitrail.data.mri.sensitivities import estimate_maps, normalize_maps
from vitrail.data.mri.slices import kspace_of
from vitrail.errors import VitrailError

SIZE = (48, 40)


def scan(coils=4, *, noise=0.0, size=SIZE):
    """A bright ellipse with a hole and stripes, seen by some coils: k-space, maps, and where there is something."""
    generator = np.random.default_rng(0)
    y, x = np.meshgrid(np.linspace(-1, 1, size[0]), np.linspace(-1, 1, size[1]), indexing="ij")
    inside = (y / 0.8) ** 2 + (x / 0.7) ** 2 < 1
    image = inside * (1 - 0.6 * ((y - 0.2) ** 2 + x**2 < 0.05)) * (1 + 0.3 * np.sin(12 * x)) * np.exp(0.5j * y)
    maps, _ = make_coils(coils, size, generator)
    kspace = kspace_of(maps * image)
    spots = generator.normal(size=(2, *kspace.shape)) * noise / 2**0.5
    return (kspace + spots[0] + 1j * spots[1]).astype(np.complex64), maps, inside


def missed(found, maps, inside):
    """Share of the true maps' energy that the found ones cannot explain, whatever their phase."""
    explained = np.abs((found.conj() * maps).sum(axis=0)) ** 2
    return float(1 - explained[inside].mean())


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize(("calibration", "most"), [(20, 0.004), (12, 0.01)])
def test_espirit_finds_the_coils(noise, calibration, most):
    kspace, maps, inside = scan(noise=noise)
    assert missed(estimate_maps(kspace, calibration), maps, inside) < most


def test_espirit_is_better_than_dividing():
    kspace, maps, inside = scan(noise=0.01)
    ways = {method: missed(estimate_maps(kspace, 14, method=method), maps, inside) for method in ("smooth", "espirit")}
    assert ways["espirit"] < 0.5 * ways["smooth"]
    assert ways["smooth"] < 0.1


@pytest.mark.parametrize("method", ["smooth", "espirit"])
@pytest.mark.parametrize("size", [(48, 40), (33, 37)])
def test_squares_sum_to_one(method, size):
    found = estimate_maps(scan(3, size=size)[0], 16, method=method)
    assert found.dtype == np.complex64
    assert (np.abs(found) ** 2).sum(axis=0) == pytest.approx(np.ones(size), abs=1e-5)


def test_only_the_calibration_lines_are_looked_at():
    kspace, _, _ = scan()
    masked = kspace.copy()
    masked[..., :14] = masked[..., 26:] = 0
    assert np.array_equal(estimate_maps(kspace, 12), estimate_maps(masked, 12))


def test_smooth_inside_the_object():
    """No jump of phase from pixel to pixel, whatever phases the eigenvectors came with."""
    kspace, _, inside = scan()
    found = estimate_maps(kspace, 20)
    steps = np.abs(np.diff(found, axis=2))[:, inside[:, 1:] & inside[:, :-1]]
    assert steps.max() < 0.35


def test_one_coil_and_few_lines():
    one = estimate_maps(scan(1)[0], 8)
    assert np.abs(one) == pytest.approx(np.ones((1, *SIZE)), abs=1e-5)
    few = scan()[0]
    assert np.array_equal(estimate_maps(few, 3), estimate_maps(few, 3, method="smooth"))


def test_normalizing():
    maps = np.array([3, 4j, 0, 0], dtype=np.complex64).reshape(2, 1, 2)[::-1]
    unit, size = normalize_maps(np.stack([maps[1], maps[1] * 0]))
    assert size.tolist() == [[3.0, 4.0]]
    assert unit[0].tolist() == [[1, 1j]]
    assert not normalize_maps(np.zeros((2, 3, 3), np.complex64))[0].any()


def test_refusals():
    kspace = scan()[0]
    with pytest.raises(VitrailError, match="calibration must be 1 to the 40 columns, got 0"):
        estimate_maps(kspace, 0)
    with pytest.raises(VitrailError, match="the 8 lines in the center are empty"):
        estimate_maps(np.zeros_like(kspace), 8)
