"""The calibration error against its definition, and against models whose calibration is known."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrail.learn.metrics.calibration import binary_calibration, calibration


def test_known_answer():
    # Two bins. Low: one image said with 0.45, wrongly. High: 0.6 right, 0.8 right, 1.0 wrong.
    probabilities = np.array([[0.45, 0.3, 0.25], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]])
    found = calibration(probabilities, np.array([2, 1, 2, 1]), bins=2)
    np.testing.assert_array_equal(found.edges, [0, 0.5, 1])
    np.testing.assert_array_equal(found.counts, [1, 3])
    np.testing.assert_allclose(found.confidence, [0.45, 0.8])
    np.testing.assert_allclose(found.accuracy, [0, 2 / 3])
    assert found.error == pytest.approx(0.25 * 0.45 + 0.75 * (0.8 - 2 / 3))
    assert found.highest == pytest.approx(0.45)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bins", [1, 3, 10, 15])
def test_an_edge_belongs_to_the_bin_below_it(bins, dtype):
    claimed = np.linspace(0, 1, bins + 1).astype(dtype)[:, None]  # every edge once; 0 goes into the first bin with 1/bins
    found = binary_calibration(claimed, np.ones(claimed.shape, dtype=bool), bins=bins)
    np.testing.assert_array_equal(found.counts, [2] + [1] * (bins - 1))


def slow_error(claimed, came_true, bins):
    """[Guo+ 2017, eq. 3], bin by bin."""
    error, edges = 0.0, np.linspace(0, 1, bins + 1)
    for i in range(bins):
        inside = [c for c in range(len(claimed)) if (edges[i] < claimed[c] or i == 0) and claimed[c] <= edges[i + 1]]
        if inside:
            error += len(inside) / len(claimed) * abs(np.mean(came_true[inside]) - np.mean(claimed[inside]))
    return error


@given(st.integers(1, 60), st.integers(2, 7), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_the_error_is_the_papers(count, classes, bins, seed):
    generator = np.random.default_rng(seed)
    probabilities, truth = generator.dirichlet(np.ones(classes), size=count), generator.integers(classes, size=count)
    found = calibration(probabilities, truth, bins=bins)
    highest = probabilities.max(axis=1)
    assert found.error == pytest.approx(slow_error(highest, probabilities.argmax(axis=1) == truth, bins), abs=1e-12)
    assert found.counts.sum() == count
    assert found.error <= found.highest + 1e-12


def test_a_model_that_means_what_it_says_has_a_small_error_and_an_overconfident_one_a_large_one():
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet([0.4] * 5, size=20_000)
    truth = (generator.random((20_000, 1)) > probabilities.cumsum(axis=1)).sum(axis=1)  # drawn from what is claimed
    assert calibration(probabilities, truth).error < 0.01
    sharper = probabilities**4 / (probabilities**4).sum(axis=1, keepdims=True)
    assert calibration(sharper, truth).error > 0.15
    labels = generator.random(probabilities.shape) < probabilities
    assert binary_calibration(probabilities, labels).error < 0.01
    assert binary_calibration(1 - probabilities, labels).error > 0.3


def test_empty_bins_and_no_images_have_no_answer_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = calibration(np.array([[0.9, 0.1]]), np.array([0]), bins=4)
        nothing = calibration(np.zeros((0, 3)), np.zeros(0, dtype=np.int64))
    np.testing.assert_array_equal(np.isnan(found.accuracy), [True, True, True, False])
    assert found.error == found.highest == pytest.approx(0.1)
    assert np.isnan(nothing.error)
    assert np.isnan(nothing.highest)
    assert nothing.counts.sum() == 0


def test_nan_is_not_taken_for_calibrated():
    assert np.isnan(calibration(np.array([[np.nan, np.nan], [0.6, 0.4]]), np.array([0, 0])).error)


def test_there_must_be_a_bin():
    with pytest.raises(ValueError, match="bins must be at least 1, got 0"):
        calibration(np.array([[1.0, 0.0]]), np.array([0]), bins=0)
