"""Top-k accuracy against its definition."""

import numpy as np
import pytest

from vitrail.learn.metrics.accuracy import topk_accuracy
from vitrail.tasks.classify.objective import Predictions

SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
TRUTH = np.array([1, 1, 0, 0])


@pytest.mark.parametrize("k, share", [(1, 0.5), (2, 0.75), (3, 1.0)])
def test_known_answers(k, share):
    assert topk_accuracy(SCORES, TRUTH, k) == share


def test_a_tie_and_nan_count_against_us():
    assert topk_accuracy(np.zeros((4, 3)), TRUTH) == 0
    assert topk_accuracy(np.full((4, 3), np.nan), TRUTH) == 0
    assert topk_accuracy(np.array([[1.0, np.nan, 0.5]]), np.array([0])) == 0


def test_the_error_of_an_accuracy_is_binomial_and_at_least_one_image():
    truth = np.array([1, 0, 2, 0])
    right = Predictions(logits=np.eye(3, dtype=np.float32)[truth], truth=truth)
    assert right.error == 0.25
    half = Predictions(logits=np.eye(3, dtype=np.float32)[[1, 0, 0, 1]], truth=truth)
    assert half.error == 0.25  # sqrt(0.5 · 0.5 / 4)
