"""Known answers of the confusion matrix and of what is computed from it."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrail.learn.metrics.confusion import (
    balanced_accuracy,
    class_scores,
    confusion_matrix,
    confusion_shares,
    f1_scores,
    frequent_confusions,
    hardest_classes,
    macro_f1,
    precision_recall,
)

TRUTH = np.array([0, 0, 0, 1, 1, 2])
SAID = np.array([0, 0, 1, 1, 0, 0])
MATRIX = np.array([[2, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])  # the fourth class has no images


def test_rows_are_the_truth_and_columns_the_answer():
    np.testing.assert_array_equal(confusion_matrix(TRUTH, SAID, 4), MATRIX)


def test_precision_and_recall_are_undefined_where_nothing_was_said_or_asked():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        precision, recall = precision_recall(MATRIX)
    np.testing.assert_allclose(precision, [2 / 4, 1 / 2, np.nan, np.nan])
    np.testing.assert_allclose(recall, [2 / 3, 1 / 2, 0, np.nan])


def test_shares_of_a_class_sum_to_one_or_are_undefined():
    np.testing.assert_allclose(confusion_shares(MATRIX).sum(axis=1), [1, 1, 1, np.nan])


def test_the_most_frequent_confusion_comes_first_and_ties_keep_the_order_of_the_classes():
    matrix = np.array([[9, 1, 0], [4, 9, 1], [0, 0, 9]])
    assert frequent_confusions(matrix, 2) == [(1, 0, 4), (0, 1, 1)]
    assert frequent_confusions(matrix, 100) == [(1, 0, 4), (0, 1, 1), (1, 2, 1)]
    assert frequent_confusions(np.diag([3, 2]), 5) == []


def test_the_hardest_classes_have_the_most_mistakes_on_either_side():
    matrix = np.array([[9, 0, 0, 0], [0, 9, 0, 5], [1, 0, 9, 0], [0, 0, 0, 9]])
    np.testing.assert_array_equal(hardest_classes(matrix, 2), [1, 3])


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40))
def test_every_image_is_counted_once(pairs):
    truth, said = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    matrix = confusion_matrix(truth, said, 7)
    assert matrix.sum() == len(pairs)
    np.testing.assert_array_equal(matrix.sum(axis=1), np.bincount(truth, minlength=7))
    np.testing.assert_array_equal(confusion_matrix(said, truth, 7), matrix.T)


def test_small_integers_do_not_overflow():
    labels = np.array([199], dtype=np.uint8)
    assert confusion_matrix(labels, labels, 200)[199, 199] == 1


def test_a_label_out_of_range_is_refused_with_its_value():
    with pytest.raises(ValueError, match=r"truth must lie in 0\.\.2: got -1\.\.1"):
        confusion_matrix(np.array([1, -1]), np.array([0, 0]), 3)
    with pytest.raises(ValueError, match=r"predicted must lie in 0\.\.2: got 0\.\.3"):
        confusion_matrix(np.array([1, 1]), np.array([0, 3]), 3)


def test_f1_is_the_harmonic_mean_of_precision_and_recall():
    np.testing.assert_allclose(f1_scores(MATRIX), [4 / 7, 1 / 2, 0, np.nan])  # the third: never said, so missed
    assert macro_f1(MATRIX) == pytest.approx((4 / 7 + 1 / 2 + 0) / 3)
    assert balanced_accuracy(MATRIX) == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    said_without_images = np.array([[3, 1], [0, 0]])
    assert f1_scores(said_without_images)[1] == 0
    assert macro_f1(said_without_images) == pytest.approx(6 / 7)
    assert balanced_accuracy(said_without_images) == pytest.approx(3 / 4)


def test_no_images_no_score():
    nothing = np.zeros((3, 3), dtype=np.int64)
    assert np.isnan([macro_f1(nothing), balanced_accuracy(nothing)]).all()


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40))
def test_scores_counted_without_the_matrix_are_the_matrixs(pairs):
    truth, said = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    scores, matrix = class_scores(truth, said, 7), confusion_matrix(truth, said, 7)
    precision, recall = precision_recall(matrix)
    np.testing.assert_array_equal(scores.precision, precision)
    np.testing.assert_array_equal(scores.recall, recall)
    np.testing.assert_array_equal(scores.f1, f1_scores(matrix))
    np.testing.assert_array_equal(scores.support, matrix.sum(axis=1))
    np.testing.assert_array_equal([scores.macro_f1, scores.balanced_accuracy], [macro_f1(matrix), balanced_accuracy(matrix)])
    harmonic = 2 * precision * recall / np.where(precision + recall > 0, precision + recall, np.nan)
    np.testing.assert_allclose(scores.f1[~np.isnan(harmonic)], harmonic[~np.isnan(harmonic)])


def test_equally_many_images_per_class_make_balanced_accuracy_accuracy():
    generator = np.random.default_rng(0)
    truth, said = np.repeat(np.arange(5), 20), generator.integers(5, size=100)
    assert class_scores(truth, said, 5).balanced_accuracy == pytest.approx((truth == said).mean())


def test_a_hundred_thousand_classes_fit_into_memory():
    scores = class_scores(np.array([0, 99_999, 5]), np.array([0, 99_999, 6]), 100_000)
    assert scores.macro_f1 == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match=r"predicted must lie in 0\.\.3: got 0\.\.4"):
        class_scores(np.array([0, 1]), np.array([0, 4]), 4)
