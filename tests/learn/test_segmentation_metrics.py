"""Scores over pixels, against cases counted by hand."""

import numpy as np
import pytest

from vitrail.data.annotations import IGNORE
from vitrail.learn.metrics.segmentation import (
    BoundaryScore,
    boundary_f,
    find_edge,
    intersection_over_union,
    mean_iou,
    pixel_accuracy,
    pixel_confusion,
    widen,
)

TRUTH = np.array([[0, 0, 1], [0, 1, 1], [IGNORE, 2, 2]])
SAID = np.array([[0, 1, 1], [0, 1, 0], [2, 2, 0]])


def test_iou_by_hand():
    matrix = pixel_confusion(TRUTH, SAID, 4)
    assert matrix.tolist() == [[2, 1, 0, 0], [1, 2, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]]
    assert intersection_over_union(matrix)[:3].tolist() == pytest.approx([2 / 5, 2 / 4, 1 / 2])
    assert np.isnan(intersection_over_union(matrix)[3])
    assert mean_iou(matrix) == pytest.approx((0.4 + 0.5 + 0.5) / 3)
    assert pixel_accuracy(matrix) == pytest.approx(5 / 8)


def test_a_perfect_answer_and_none_at_all():
    truth = np.random.default_rng(0).integers(-1, 3, (7, 11))
    matrix = pixel_confusion(truth, np.where(truth < 0, 2, truth), 3)
    assert mean_iou(matrix) == pixel_accuracy(matrix) == 1
    empty = pixel_confusion(np.full((3, 5), IGNORE), np.zeros((3, 5), dtype=int), 3)
    assert np.isnan(mean_iou(empty))
    assert np.isnan(pixel_accuracy(empty))


def test_adding_up_images_is_one_large_image():
    generator = np.random.default_rng(1)
    truth, said = generator.integers(-1, 5, (2, 3, 7)), generator.integers(0, 5, (2, 3, 7))
    parts = sum(pixel_confusion(t, s, 5) for t, s in zip(truth, said, strict=True))
    assert (parts == pixel_confusion(truth.reshape(6, 7), said.reshape(6, 7), 5)).all()


def square(top, left, *, side=6, size=(20, 23)):
    mask = np.zeros(size, dtype=bool)
    mask[top : top + side, left : left + side] = True
    return mask


def test_edges_within_the_tolerance_are_right():
    assert find_edge(square(5, 5)).sum() == 20
    assert not find_edge(np.ones((5, 7), dtype=bool)).any()
    assert boundary_f(square(5, 5), square(5, 5), tolerance=0) == 1
    assert boundary_f(square(5, 5), square(7, 5), tolerance=2) == 1
    assert 0 < boundary_f(square(5, 5), square(7, 5), tolerance=1) < 1
    assert boundary_f(square(0, 0), square(14, 17), tolerance=2) == 0
    assert boundary_f(square(5, 5), np.zeros((20, 23), dtype=bool)) == 0
    assert boundary_f(np.zeros((20, 23), dtype=bool), np.zeros((20, 23), dtype=bool)) == 1


def test_widening_is_by_a_disk():
    point = np.zeros((11, 13), dtype=bool)
    point[5, 6] = True
    rows, columns = np.mgrid[:11, :13]
    for radius in (0, 1, 2, 3):
        assert (widen(point, radius) == ((rows - 5) ** 2 + (columns - 6) ** 2 <= radius**2)).all()


def test_boundaries_are_a_mean_over_the_images_that_a_class_is_in():
    score = BoundaryScore(4)
    one, other = square(5, 5).astype(int), square(5, 5) * 2
    assert score.add(one, one) == 1
    assert score.add(other, np.zeros_like(other)) == 0
    assert score.by_class[:3].tolist() == [0.5, 1, 0]
    assert np.isnan(score.by_class[3])
    assert score.mean == 0.5
