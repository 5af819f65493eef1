"""Boxes and their overlaps."""

import torch
from torch.testing import assert_close

from vitrail.nn.functional.boxes import all_pairs, generalized_overlap, overlap, to_centers, to_corners


def test_both_ways_of_stating_a_box_say_the_same():
    boxes = torch.rand(3, 7, 4)
    assert_close(to_centers(to_corners(boxes)), boxes)
    assert_close(to_corners(torch.tensor([0.5, 0.25, 0.5, 0.25])), torch.tensor([0.25, 0.125, 0.75, 0.375]))


def test_overlaps_by_hand():
    a = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.0, 1.0]])
    b = torch.tensor([[1.0, 0.0, 3.0, 2.0], [2.0, 0.0, 3.0, 1.0], [0.0, 0.0, 2.0, 2.0]])
    share, union = overlap(*all_pairs(a, b))
    assert_close(share, torch.tensor([[2 / 6, 0.0, 1.0], [0.0, 0.0, 0.25]]))
    assert_close(union, torch.tensor([[6.0, 5.0, 4.0], [5.0, 2.0, 4.0]]))
    assert_close(generalized_overlap(*all_pairs(a, b))[1, 1], torch.tensor(-1 / 3))  # hull 3, union 2
    assert_close(generalized_overlap(*all_pairs(a, b))[0, 2], torch.tensor(1.0))


def test_empty_boxes_give_numbers_and_gradients():
    a = torch.zeros(1, 4, requires_grad=True)
    value = generalized_overlap(a, torch.zeros(1, 4)).sum()
    value.backward()
    assert value == 0
    assert a.grad.isfinite().all()
