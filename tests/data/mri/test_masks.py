"""Masks of measured lines: how many, where, and that they depend on (seed, epoch, index) alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.data.mri.masks import KINDS, calibration_width, center_lines, make_mask
from vitrail.errors import VitrailError


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("acceleration", [2, 4.0, 5.5, 8])
@pytest.mark.parametrize("width", [224, 320, 368, 181])
def test_realized_acceleration(kind, acceleration, width):
    counts = [make_mask(kind, width, acceleration=acceleration, index=i).sum() for i in range(12)]
    assert width / np.mean(counts) == pytest.approx(acceleration, rel=0.05)
    assert width / np.array(counts) == pytest.approx(acceleration, rel=0.1)


@settings(max_examples=40)
@given(st.sampled_from(KINDS), st.integers(1, 80), st.data())
def test_center_is_measured_at_any_size(kind, width, data):
    acceleration = data.draw(st.floats(1, width))
    center = data.draw(st.integers(0, round(width / acceleration)))
    mask = make_mask(kind, width, acceleration=acceleration, center=center, seed=data.draw(st.integers(0, 9)))
    assert mask.shape == (width,)
    assert mask[center_lines(width, center)].all()
    if kind != "equispaced":
        assert mask.sum() == round(width / acceleration)


@pytest.mark.parametrize(
    ("width", "count", "lines"), [(8, 3, [3, 4, 5]), (8, 2, [3, 4]), (7, 3, [2, 3, 4]), (7, 1, [3]), (4, 0, [])]
)
def test_the_center_is_around_the_zero_frequency(width, count, lines):
    assert np.flatnonzero(center_lines(width, count)).tolist() == lines


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_of_seed_epoch_and_index(kind):
    def masks(**which):
        return [make_mask(kind, 128, acceleration=8, index=i, **which) for i in range(12)]

    assert np.array_equal(masks(seed=3, epoch=1), masks(seed=3, epoch=1))
    assert not np.array_equal(masks(seed=3, epoch=1), masks(seed=4, epoch=1))
    assert not np.array_equal(masks(seed=3, epoch=1), masks(seed=3, epoch=2))
    assert len({mask.tobytes() for mask in masks()}) > 4


def test_equal_distances():
    mask = make_mask("equispaced", 240, acceleration=4, center=0)
    assert set(np.diff(np.flatnonzero(mask))) == {4}
    offsets = {int(make_mask("equispaced", 240, acceleration=4, center=0, index=i).argmax()) for i in range(40)}
    assert offsets == {0, 1, 2, 3}


def test_distances_are_adjusted_for_the_center_as_fastmri_does():
    acceleration, center, width = 4, 26, 320
    adjusted = acceleration * (center - width) / (center * acceleration - width)  # their formula: 5.44
    lines = np.flatnonzero(make_mask("equispaced", width, acceleration=acceleration, center=center))
    assert np.diff(lines[lines < 147]).mean() == pytest.approx(adjusted, rel=0.02)
    assert np.diff(lines[lines > 173]).mean() == pytest.approx(adjusted, rel=0.02)


def test_density_falls_from_the_center():
    masks = np.mean([make_mask("density", 200, acceleration=4, center=8, index=i) for i in range(80)], axis=0)
    rings = [masks[100 + far : 120 + far].mean() + masks[81 - far : 101 - far].mean() for far in (5, 30, 55, 80)]
    assert rings == sorted(rings, reverse=True)
    assert rings[0] > 5 * rings[3]
    even = np.mean([make_mask("random", 200, acceleration=4, center=8, index=i) for i in range(80)], axis=0)
    assert even[:40].mean() == pytest.approx(even[60:90].mean(), rel=0.25)


def test_fastmri_center_fractions():
    assert calibration_width(320, 4) / 320 == pytest.approx(0.08, abs=0.002)
    assert calibration_width(320, 8) / 320 == pytest.approx(0.04, abs=0.002)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"acceleration": 0.5}, "acceleration must lie between 1 and the 32 columns, got 0.5"),
        ({"acceleration": 33}, "got 33"),
        ({"acceleration": float("nan")}, "got nan"),
        ({"acceleration": 8, "center": 5}, "center must be 0 to the 4 lines that 8x leaves of 32, got 5"),
        ({"acceleration": 8, "center": -1}, "got -1"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words):
        make_mask("random", 32, **options)
