"""Losses over pixels: nothing at the answer, nothing of pixels without a class, and the sums written out."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from vitrail.data.annotations import IGNORE
from vitrail.learn.losses.segmentation import balanced_weights, focal_loss, segmentation_loss

KINDS = ("ce", "dice", "focal", "ce+dice")


@pytest.fixture
def masks():
    return torch.from_numpy(np.random.default_rng(0).integers(0, 3, (2, 5, 7)))


def answer(masks, *, classes=3, sure=60.0):
    return sure * torch.nn.functional.one_hot(masks.clamp(min=0), classes).permute(0, 3, 1, 2).float()


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_itself_has_no_loss(kind, masks):
    assert segmentation_loss(answer(masks), masks, kind=kind).item() < 1e-5
    assert segmentation_loss(-answer(masks), masks, kind=kind).item() > 0.3


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_of_no_class_neither_count_nor_pull(kind, masks):
    masks[:, 1:3, 2:5] = IGNORE
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 3, 5, 7, generator=generator, requires_grad=True)
    loss = segmentation_loss(logits, masks, kind=kind)
    loss.backward()
    ignored = (masks == IGNORE)[:, None].expand_as(logits)
    assert (logits.grad[ignored] == 0).all()
    assert (logits.grad[~ignored] != 0).all()
    other = logits.detach().clone()
    other[ignored] = torch.randn(other[ignored].shape, generator=generator)
    assert_close(segmentation_loss(other, masks, kind=kind), loss.detach())


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_without_any_class_is_no_accident(kind):
    logits = torch.randn(1, 3, 5, 7, requires_grad=True)
    loss = segmentation_loss(logits, torch.full((1, 5, 7), IGNORE), kind=kind)
    loss.backward()
    assert loss.item() == 0
    assert (logits.grad == 0).all()


def test_focal_without_focus_is_the_cross_entropy_weights_included(masks):
    logits, weights = torch.randn(2, 3, 5, 7), torch.tensor([0.5, 1.0, 3.0])
    masks[0, 0] = IGNORE
    expected = segmentation_loss(logits, masks, kind="ce", weights=weights)
    assert_close(focal_loss(logits, masks, weights=weights, focus=0.0), expected)
    assert focal_loss(logits, masks) < segmentation_loss(logits, masks)


def test_dice_by_hand():
    """Two classes, four pixels, even chances: 2 · 1 + 1 over 2 + 2 + 1 for each."""
    assert_close(
        segmentation_loss(torch.zeros(1, 2, 2, 2), torch.tensor([[[0, 0], [1, 1]]]), kind="dice"), torch.tensor(1 - 3 / 5)
    )


def test_rare_classes_weigh_more_by_median_frequency():
    pixels, around = np.array([800, 100, 0, 50]), np.array([1000, 1000, 0, 500])
    assert balanced_weights(pixels, around).tolist() == pytest.approx([0.125, 1.0, 1.0, 1.0])
    assert balanced_weights(np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)).tolist() == [1, 1, 1]
