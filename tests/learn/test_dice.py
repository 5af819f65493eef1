"""Dice as a score and as a loss, and distances of surfaces: known answers, empty cases, any number of axes."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitrail.learn.losses.dice import dice_cross_entropy, dice_loss
from vitrail.learn.metrics.dice import count_overlap, dice_of
from vitrail.learn.metrics.surface_distance import surface_distance


def test_a_perfect_mask_is_one_and_a_missed_one_zero():
    truth = np.random.default_rng(0).integers(0, 3, (5, 7, 11))
    assert dice_of(count_overlap(truth, truth, classes=3)).tolist() == [1, 1, 1]
    assert dice_of(count_overlap(np.zeros_like(truth), truth, classes=3))[1:].tolist() == [0, 0]


def test_half_of_it_and_what_is_nowhere():
    truth, found = np.zeros((2, 20), int), np.zeros((2, 20), int)
    truth[0, :8], found[0, 4:12] = 1, 1
    scores = dice_of(count_overlap(found, truth, classes=3))
    assert scores[1] == 0.5
    assert math.isnan(scores[2])
    halves = sum(count_overlap(found[:, part], truth[:, part], classes=3) for part in (slice(9), slice(9, None)))
    assert np.array_equal(dice_of(halves), scores, equal_nan=True)


def test_distances_of_the_same_and_of_moved_boxes():
    pytest.importorskip("scipy")
    truth = np.zeros((13, 17, 19), bool)
    truth[2:6, 3:9, 4:11] = True
    assert surface_distance(truth, truth, (1.0, 2.0, 3.0)) == (0.0, 0.0)
    one, other = np.zeros_like(truth), np.zeros_like(truth)
    one[5, 5, 5], other[5, 5, 9] = True, True
    assert surface_distance(one, other, (1.0, 2.0, 3.0)) == (12.0, 12.0)
    plane, shifted = np.zeros_like(truth), np.zeros_like(truth)
    plane[3], shifted[6] = True, True
    assert surface_distance(plane, shifted, (1.5, 1.0, 1.0)) == pytest.approx((4.5, 4.5))
    moved = surface_distance(np.roll(truth, 2, axis=1), truth, (1.0, 2.0, 3.0))
    assert 0 < moved.mean < moved.most == 4.0


def test_one_far_voxel_moves_the_mean_and_not_the_ninety_five_percent():
    pytest.importorskip("scipy")
    truth = np.zeros((23, 23, 23), bool)
    truth[4:14, 4:14, 4:14] = True
    found = truth.copy()
    found[22, 22, 22] = True
    near = surface_distance(found, truth, (1.0, 1.0, 1.0))
    assert near.mean > 0
    assert near.most == 0


def test_an_empty_surface_has_no_distance():
    full, empty = np.ones((3, 5, 7), bool), np.zeros((3, 5, 7), bool)
    for pair in ((full, empty), (empty, full), (empty, empty)):
        assert all(map(math.isnan, surface_distance(*pair, (1.0, 1.0, 1.0))))


@pytest.mark.parametrize("size", [(11,), (5, 7), (3, 5, 7)])
def test_the_loss_is_zero_at_the_answer_and_one_at_its_opposite(size):
    classes = torch.randint(0, 3, (2, *size), generator=torch.Generator().manual_seed(0))
    sure = 100.0 * F.one_hot(classes, 3).movedim(-1, 1)
    assert dice_cross_entropy(sure, classes) == pytest.approx(0, abs=1e-5)
    assert dice_loss(-sure, classes) > 0.5
    assert dice_loss(sure, classes, background=True) == pytest.approx(0, abs=1e-5)


def test_a_hand_made_case_and_a_class_that_is_nowhere():
    logits = torch.tensor([[[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]])  # p = 1/2 everywhere
    classes = torch.tensor([[1, 1, 0, 0]])
    assert dice_loss(logits, classes) == pytest.approx(1 - (2 * 1 + 1) / (2 + 2 + 1))
    nowhere = torch.zeros(1, 4, dtype=torch.int64)
    assert dice_loss(torch.tensor([[[50.0] * 4, [-50.0] * 4]]), nowhere) == pytest.approx(0, abs=1e-6)


def test_of_one_sample_with_every_class_both_means_are_one_and_of_a_batch_absent_classes_do_not_count():
    generator = torch.Generator().manual_seed(2)
    logits, classes = torch.randn(2, 3, 5, 7, generator=generator), torch.arange(70).reshape(2, 5, 7) % 3
    one = dice_loss(logits[:1], classes[:1], background=True)
    assert dice_loss(logits[:1], classes[:1], each="batch") == pytest.approx(one.item(), abs=1e-6)
    absent = torch.cat([logits, torch.full((2, 1, 5, 7), -50.0)], dim=1)
    assert dice_loss(absent, classes, each="batch") == pytest.approx(dice_loss(logits, classes, each="batch").item(), abs=1e-6)


def test_ignored_cells_change_nothing_and_get_no_gradient():
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 3, 5, 7, generator=generator, requires_grad=True)
    classes = torch.randint(0, 3, (2, 5, 7), generator=generator)
    classes[:, 2] = 255
    loss = dice_cross_entropy(logits, classes, ignore=255)
    loss.backward()
    assert logits.grad[:, :, 2].abs().max() == 0
    other = logits.detach().clone()
    other[:, :, 2] = 9.0
    assert_close(dice_cross_entropy(other, classes, ignore=255), loss.detach())
