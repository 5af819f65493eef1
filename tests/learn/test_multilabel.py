"""Metrics of many labels per image, each against a slow form written down from its definition."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrail.learn.metrics.multilabel import (
    Ranking,
    average_precision,
    exact_match,
    label_f1,
    label_scores,
    map_error,
    mean_average_precision,
)


def slow_average_precision(scores, truth):
    """sum over thresholds of (recall - recall before) * precision, as scikit-learn's `average_precision_score`."""
    if not truth.any():
        return float("nan")
    area, before = 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        said = scores >= threshold
        recall = (said & truth).sum() / truth.sum()
        area += (recall - before) * (said & truth).sum() / said.sum()
        before = recall
    return area


def draw(count, classes, levels, seed):
    """Scores with many ties at few levels, and truth in which some classes may have no positive."""
    generator = np.random.default_rng(seed)
    scores = generator.integers(levels, size=(count, classes)) / levels
    return scores.astype(np.float32), generator.random((count, classes)) < generator.random(classes)


sizes = st.tuples(st.integers(1, 30), st.integers(1, 6), st.sampled_from([1, 2, 5, 10**6]), st.integers(0, 2**32 - 1))


def test_known_answers():
    scores = np.array([[0.1], [0.4], [0.35], [0.8]])
    truth = np.array([[False], [False], [True], [True]])
    assert average_precision(scores, truth) == pytest.approx([0.8333333])  # the example of scikit-learn's documentation
    assert average_precision(np.zeros((4, 1)), truth) == pytest.approx([0.5])  # all tied: the share of positives
    assert average_precision(-scores, truth) == pytest.approx([1 / 2 * 1 / 2 + 1 / 2 * 2 / 4])


@given(sizes)
def test_average_precision_is_the_slow_one(size):
    scores, truth = draw(*size)
    expected = [slow_average_precision(column, labels) for column, labels in zip(scores.T, truth.T, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = average_precision(scores, truth)
        mean = mean_average_precision(scores, truth)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert mean == pytest.approx(np.mean([x for x in expected if x == x]) if truth.any() else np.nan, nan_ok=True)


@given(sizes)
def test_a_weight_is_so_many_copies(size):
    scores, truth = draw(*size)
    indices = np.random.default_rng(size[3]).integers(len(scores), size=len(scores))
    weighed = Ranking(scores, truth).average_precision(np.bincount(indices, minlength=len(scores)))
    np.testing.assert_allclose(weighed, average_precision(scores[indices], truth[indices]), atol=1e-12)


@given(sizes)
def test_influence_is_the_derivative_by_the_weights(size):
    scores, truth = draw(*size)
    ranking, step = Ranking(scores, truth), 1e-5
    known = truth.any(axis=0)

    def mean(weights):
        return ranking.average_precision(weights)[known].mean() if known.any() else 0.0

    ones = np.ones(len(scores))
    numeric = [(mean(ones + step * unit) - mean(ones - step * unit)) / (2 * step) for unit in np.eye(len(scores))]
    np.testing.assert_allclose(ranking.influence(), numeric, atol=1e-7)


def test_the_error_of_map_is_that_of_the_bootstrap():
    generator = np.random.default_rng(0)
    truth = generator.random((600, 4)) < 0.2
    scores = truth + generator.normal(size=truth.shape)
    ranking = Ranking(scores, truth)
    drawn = [np.bincount(generator.integers(600, size=600), minlength=600) for _ in range(1500)]
    spread = np.std([ranking.average_precision(weights).mean() for weights in drawn])
    assert map_error(ranking) == pytest.approx(spread, rel=0.1)


@given(sizes)
def test_only_the_order_of_the_scores_counts(size):
    scores, truth = draw(*size)
    np.testing.assert_array_equal(average_precision(scores, truth), average_precision(np.arctan(7 * scores) - 3, truth))


def test_a_perfect_ranking_and_none():
    truth = np.random.default_rng(0).random((50, 7)) < 0.3
    assert mean_average_precision(truth.astype(float), truth) == 1
    assert np.isnan(mean_average_precision(np.ones((3, 2)), np.zeros((3, 2), dtype=bool)))
    assert map_error(Ranking(np.ones((3, 2)), np.zeros((3, 2), dtype=bool))) == 0
    assert np.isnan(average_precision(np.zeros((0, 2)), np.zeros((0, 2), dtype=bool))).all()


TRUTH = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0]], dtype=bool)  # the last two classes have no positives
SAID = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 0, 0]], dtype=bool)


def test_decisions_by_hand():
    scores = label_scores(SAID, TRUTH)
    np.testing.assert_allclose(scores.precision, [1, 1, 0, np.nan])
    np.testing.assert_allclose(scores.recall, [1 / 2, 1, np.nan, np.nan])
    np.testing.assert_allclose(scores.f1, [2 / 3, 1, 0, np.nan])
    np.testing.assert_array_equal(scores.support, [2, 2, 0, 0])
    micro, macro = label_f1(SAID, TRUTH)
    assert micro == pytest.approx(2 * 3 / (4 + 4))
    assert macro == pytest.approx((2 / 3 + 1) / 2)
    assert exact_match(SAID, TRUTH) == pytest.approx(2 / 3)


def test_without_labels_there_is_no_f1():
    nothing = np.zeros((3, 2), dtype=bool)
    assert np.isnan(label_f1(~nothing, nothing)).all()
    assert exact_match(nothing, nothing) == 1
    assert np.isnan(exact_match(nothing[:0], nothing[:0]))
