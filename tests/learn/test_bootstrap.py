"""The bootstrap: how often its interval holds the truth, and what it agrees with."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrail.learn.metrics.bootstrap import AT_ONCE, FEW, bootstrap_interval, bootstrap_statistic


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_coverage_of_a_share(level):
    """Of 600 samples of 997 images at a true accuracy of 0.8, about `level` of the intervals must hold 0.8."""
    generator = np.random.default_rng(1)
    samples = generator.random((600, 997)) < 0.8
    holds = [low <= 0.8 <= high for low, high in (bootstrap_interval(row, level=level, resamples=500) for row in samples)]
    assert np.mean(holds) == pytest.approx(level, abs=0.05)  # 0.05 is three standard errors at 0.8


def test_coverage_of_a_mean_of_many_different_values():
    generator = np.random.default_rng(2)
    samples = generator.exponential(size=(200, 100))
    assert len(np.unique(samples[0])) > FEW
    holds = [low <= 1.0 <= high for low, high in (bootstrap_interval(row, resamples=300) for row in samples)]
    assert np.mean(holds) == pytest.approx(0.93, abs=0.05)  # skewed: a little short of 0.95, as the percentile method is


def test_both_ways_of_drawing_have_the_same_width_and_it_is_that_of_the_central_limit():
    generator = np.random.default_rng(3)
    few = generator.integers(5, size=1000).astype(float)
    many = few + 1e-9 * generator.random(1000)  # the same numbers, but all of them different
    expected = 2 * 1.96 * few.std() / 1000**0.5
    for values in (few, many):
        low, high = bootstrap_interval(values)
        assert low < values.mean() < high
        assert high - low == pytest.approx(expected, rel=0.08)


def test_any_statistic_and_the_mean_agree():
    values = np.random.default_rng(4).random(60) < 0.7
    mean = bootstrap_interval(values, resamples=4000)
    any_statistic = bootstrap_statistic(lambda indices: float(values[indices].mean()), 60, resamples=4000, seed=1)
    assert any_statistic == pytest.approx(mean, abs=0.02)


def test_resamples_without_an_answer_are_left_out():
    values = np.array([1.0, 2.0, np.nan])

    def mean_of_numbers(indices):
        drawn = values[indices]
        return float(drawn[~np.isnan(drawn)].mean()) if (~np.isnan(drawn)).any() else float("nan")

    low, high = bootstrap_statistic(mean_of_numbers, 3, resamples=300)
    assert (low, high) == (1, 2)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=90), st.floats(0.05, 0.99), st.integers(0, 99))
def test_it_lies_within_the_values_repeats_itself_and_widens_with_the_level(values, level, seed):
    values = np.array(values)
    low, high = bootstrap_interval(values, level=level, resamples=50, seed=seed)
    slack = 1e-9 * np.abs(values).max()
    assert values.min() - slack <= low <= high <= values.max() + slack
    assert (low, high) == bootstrap_interval(values, level=level, resamples=50, seed=seed)
    wider = bootstrap_interval(values, level=level + 0.009, resamples=50, seed=seed)
    assert wider[0] <= low
    assert wider[1] >= high


def test_another_seed_draws_others():
    values = np.random.default_rng(5).random(100)
    assert bootstrap_interval(values, seed=0) != bootstrap_interval(values, seed=1)
    assert bootstrap_interval(values > 0.5, seed=0, resamples=99) != bootstrap_interval(values > 0.5, seed=1, resamples=99)


def test_no_images_no_interval_and_no_mistake_no_width():
    assert np.isnan(bootstrap_interval(np.zeros(0))).all()
    assert np.isnan(bootstrap_statistic(lambda indices: 1.0, 0)).all()
    assert bootstrap_interval(np.ones(20, dtype=bool)) == (1, 1)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_the_level_is_a_share(level):
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        bootstrap_interval(np.ones(3), level=level)


def test_ten_thousand_images_are_quick(effort):
    values = np.random.default_rng(6).random(10_000)
    bootstrap_interval(values[:100])  # imports
    with effort(memory=True) as spent:
        bootstrap_interval(values)
    assert spent.calls < 2_000  # for twenty million draws
    assert spent.memory < 20 * AT_ONCE  # bytes: as many draws as are held at a time, and their values
    with effort(memory=True) as spent:
        bootstrap_interval(values > 0.1)
    assert spent.calls < 1_000
    assert spent.memory < 100 * len(values)  # two thousand counts, and not a draw for each image of each
