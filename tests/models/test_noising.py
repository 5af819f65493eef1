"""Row F4: queries that are true objects with noise."""

import torch
from torch.testing import assert_close

from vitrail.models.detections import Targets
from vitrail.models.noising import FLIPPED, MOST_GROUPS, SHIFT, noise_targets
from vitrail.nn.functional.boxes import to_corners

BOXES = torch.tensor([[0.3, 0.4, 0.2, 0.3], [0.6, 0.5, 0.3, 0.1]])
TARGETS = [
    Targets(torch.tensor([4, 1]), BOXES),
    Targets(torch.zeros(0, dtype=torch.int64), torch.zeros(0, 4)),
    Targets(torch.tensor([2]), BOXES[1:]),
]


def noised(targets=TARGETS, *, most=4, negatives=False, seed=0):
    return noise_targets(targets, most=most, num_classes=7, negatives=negatives, generator=torch.Generator().manual_seed(seed))


def test_who_may_look_at_whom():
    """Two groups of at most two objects, then three queries: 1 = may look."""
    found = noised()
    assert found.group.tolist() == [0, 0, 1, 1]
    assert found.real.tolist() == [[True] * 4, [False] * 4, [True, False, True, False]]
    assert found.which[0].tolist() == [0, 1, 0, 1]
    first, last = found.mask(3).int()[0, 0].tolist(), found.mask(3).int()[2, 0].tolist()
    matched = [[0, 0, 0, 0, 1, 1, 1]] * 3
    assert first == [[1, 1, 0, 0, 1, 1, 1]] * 2 + [[0, 0, 1, 1, 1, 1, 1]] * 2 + matched
    assert last == [[1, 0, 0, 0, 1, 1, 1]] * 2 + [[0, 0, 1, 0, 1, 1, 1]] * 2 + matched


def test_every_corner_moves_by_at_most_a_share_of_half_its_side_and_of_negatives_by_more():
    many = noised(TARGETS[:1] * 50, most=40, negatives=True)
    assert many.boxes.shape == (50, 40, 4)
    true = BOXES.repeat(20, 1)
    far = (to_corners(many.boxes) - to_corners(true)).abs() / (true[:, 2:].repeat(1, 2) / 2)
    near, away = far[:, many.positive[0]], far[:, ~many.positive[0]]
    assert 0.9 * SHIFT < near.max() <= SHIFT + 1e-5
    assert away.min() >= SHIFT - 1e-5
    assert 1.8 * SHIFT < away.max() <= 2 * SHIFT + 1e-5
    assert many.positive[0].tolist() == [True, True, False, False] * 10


def test_boxes_stay_in_the_image():
    edge = [Targets(torch.tensor([0]), torch.tensor([[0.05, 0.95, 0.1, 0.1]]))]
    corners = to_corners(noised(edge, most=MOST_GROUPS).boxes)
    assert corners.min() >= -1e-6
    assert corners.max() <= 1 + 1e-6


def test_a_share_of_the_classes_is_another():
    many = noised(TARGETS[:1] * 100, most=40)
    changed = (many.classes != torch.tensor([4, 1]).repeat(20)).float().mean().item()
    assert abs(changed - FLIPPED * 6 / 7) < 0.02
    assert many.classes.min() >= 0
    assert many.classes.max() < 7


def test_as_many_groups_as_fit_and_at_least_one():
    assert noised(most=1).classes.shape == (3, 2)
    assert noised(most=9).classes.shape == (3, 8)
    assert noised(most=10_000).classes.shape == (3, 2 * MOST_GROUPS)
    assert noised(TARGETS[1:2]) is None


def test_noise_is_the_generators():
    assert_close(noised(seed=1).boxes, noised(seed=1).boxes, rtol=0, atol=0)
    assert not torch.equal(noised(seed=1).boxes, noised(seed=2).boxes)
