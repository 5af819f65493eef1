"""Samples: only measured lines, one scale, and masks that depend on (seed, epoch, index) alone."""

import numpy as np
import pytest

from vitrail.data.mri.masks import make_mask
from vitrail.data.mri.measuring import MeasuredSlices, measure, missing_lines
from vitrail.data.mri.simulation import simulate
from vitrail.data.mri.slices import Slice, brightness, combine

BALL = np.pad(np.ones((9, 9, 4), np.float32), ((3, 3), (2, 2), (0, 0)))
SLICES = simulate(BALL, coils=3, noise=0.01, size=(32, 40))


def test_only_what_was_measured():
    mask = make_mask("random", 40, acceleration=4)
    sample = measure(SLICES[0], mask, calibration=4)
    assert not sample.kspace[..., ~mask].any()
    assert np.allclose(sample.kspace[..., mask] * sample.scale, SLICES[0].kspace[..., mask], rtol=1e-5)
    assert np.array_equal(sample.mask, mask)
    assert (sample.kspace.dtype, sample.maps.dtype, sample.target.dtype) == (np.complex64,) * 3


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e5])
def test_the_zero_filled_image_has_brightness_one(factor):
    one = SLICES[1]
    louder = Slice(kspace=one.kspace * np.float32(factor), maps=one.maps, target=one.target * np.float32(factor), name=one.name)
    sample = measure(louder, make_mask("density", 40, acceleration=4), calibration=4)
    assert brightness(combine(sample.kspace, sample.maps, sample.mask)) == pytest.approx(1, rel=1e-4)
    assert np.allclose(sample.target * sample.scale, louder.target, rtol=1e-4)


def test_targets():
    """A complex one of the whole is taken; otherwise all lines tell; where the scan left lines out, nobody knows."""
    one, mask = SLICES[0], make_mask("random", 40, acceleration=4)
    stored = Slice(kspace=one.kspace, maps=one.maps, target=np.abs(one.target), name="x")
    sample = measure(stored, mask, calibration=4)
    assert np.allclose(sample.target * sample.scale, combine(one.kspace, one.maps), atol=1e-5)
    left_out = one.kspace.copy()
    left_out[..., 5::7] = 0
    sample = measure(Slice(kspace=left_out, maps=one.maps, target=None, name="x"), mask, calibration=4)
    assert sample.target is None
    assert not sample.mask[5::7].any()


def test_maps_of_any_size_explain_the_same_lines():
    one, mask = SLICES[0], make_mask("random", 40, acceleration=4)
    double = Slice(kspace=one.kspace, maps=2 * one.maps, target=one.target / 2, name="x")
    first, second = (measure(each, mask, calibration=4) for each in (one, double))
    assert np.allclose(first.maps, second.maps, atol=1e-6)
    assert np.allclose(first.target, second.target, atol=1e-5)


def test_maps_are_estimated_where_there_are_none():
    one = SLICES[0]
    blind = Slice(kspace=one.kspace, maps=None, target=None, name="x")
    first = measure(blind, make_mask("random", 40, acceleration=2, center=16), calibration=16)
    inside = np.abs(one.target) > 0.3
    assert np.abs((first.maps.conj() * one.maps).sum(axis=0))[inside].mean() > 0.99
    second = measure(blind, make_mask("random", 40, acceleration=2, center=16, seed=1), calibration=16)
    assert np.allclose(first.maps, second.maps)  # from the calibration lines alone


def test_missing_lines():
    kspace = np.ones((2, 3, 9), np.complex64)
    kspace[..., [0, 1, 4, 8]] = 0
    assert np.flatnonzero(missing_lines(kspace)).tolist() == [4]


def test_masks_of_epochs():
    data = MeasuredSlices(slices=SLICES, kind="random", acceleration=4, seed=3)
    assert len(data) == len(SLICES) == 4
    assert np.array_equal(data[1].mask, data.sample(1, epoch=0).mask)
    assert np.array_equal(data.sample(-1).mask, data.sample(3).mask)
    masks = {data.sample(index, epoch=epoch).mask.tobytes() for index in range(4) for epoch in range(3)}
    assert len(masks) == 12
    again = MeasuredSlices(slices=SLICES, kind="random", acceleration=4, seed=3).sample(2, epoch=2)
    assert np.array_equal(again.kspace, data.sample(2, epoch=2).kspace)


@pytest.mark.parametrize("kind", ["random", "equispaced", "density"])
def test_center(kind):
    data = MeasuredSlices(slices=SLICES, kind=kind, acceleration=4, center=6)
    assert data[0].mask[17:23].all()
    assert data[0].mask.sum() == pytest.approx(10, abs=1)
