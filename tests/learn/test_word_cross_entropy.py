"""The loss of words, and the schedule that came with the Transformer."""

import math

import pytest
import torch
from torch.testing import assert_close

from vitrail.learn.losses.word_cross_entropy import word_cross_entropy
from vitrail.learn.optim.schedule import inverse_square_root
from vitrail.special_tokens import PAD


def test_the_mean_is_over_real_words():
    logits = torch.log(torch.tensor([[[0.1, 0.2, 0.7], [0.1, 0.5, 0.4]], [[0.3, 0.3, 0.4], [0.9, 0.05, 0.05]]]))
    targets = torch.tensor([[2, 1], [1, PAD]])
    expected = -(math.log(0.7) + math.log(0.5) + math.log(0.3)) / 3
    assert_close(word_cross_entropy(logits, targets).item(), expected)
    assert_close(word_cross_entropy(logits, targets, reduction="sum").item(), 3 * expected)
    each = word_cross_entropy(logits, targets, reduction="none")
    assert_close(each, -torch.log(torch.tensor([[0.7, 0.5], [0.3, 1.0]])))
    assert_close(word_cross_entropy(logits.flatten(0, 1), targets.flatten()).item(), expected)


def test_smoothing_by_hand():
    logits = torch.log(torch.tensor([[0.2, 0.3, 0.5]]))
    expected = -(0.9 + 0.1 / 3) * math.log(0.5) - 0.1 / 3 * (math.log(0.2) + math.log(0.3))
    assert_close(word_cross_entropy(logits, torch.tensor([2]), smoothing=0.1).item(), expected)


def test_padding_changes_nothing_and_gets_no_gradient():
    logits, targets = torch.randn(2, 5, 7, requires_grad=True), torch.randint(1, 7, (2, 5))
    targets[1, 3:] = PAD
    loss = word_cross_entropy(logits, targets, smoothing=0.1)
    loss.backward()
    assert (logits.grad[1, 3:] == 0).all()
    assert (logits.grad[1, :3] != 0).all()
    longer = torch.cat([logits, torch.randn(2, 3, 7)], dim=1)
    assert_close(word_cross_entropy(longer, torch.nn.functional.pad(targets, (0, 3), value=PAD), smoothing=0.1), loss)


def test_without_words_the_loss_is_zero():
    assert word_cross_entropy(torch.randn(2, 3, 5), torch.full((2, 3), PAD)).item() == 0.0


def test_the_schedule_of_2017_up_to_its_peak():
    """width^-0.5 min(step^-0.5, step warmup^-1.5)  [Vaswani+ 2017, eq. 3], 100,000 steps of which 4,000 warm up."""
    for step in (1, 100, 3999, 4000, 4001, 50_000, 100_000):
        theirs = min(step**-0.5, step * 4000**-1.5) / 4000**-0.5
        assert inverse_square_root(step / 100_000, warmup=0.04) == pytest.approx(theirs)
    assert inverse_square_root(0.0, warmup=0.04) == 0.0
    assert inverse_square_root(0.0, warmup=0.0) == inverse_square_root(1.0, warmup=0.0) == 1.0
