"""What is asked of a visual vocabulary, and how its use is measured: hand-computed."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitrail.learn.losses.codes import choice_divergence, usage_divergence
from vitrail.learn.losses.hidden_codes import hidden_code_losses
from vitrail.learn.metrics.code_usage import describe_usage, measure_usage, warn_of_collapse


def test_uniform_choices_diverge_by_nothing():
    assert_close(choice_divergence(torch.full((2, 5, 3, 3), 7.0)), torch.tensor(0.0), atol=1e-6, rtol=0)
    assert_close(usage_divergence(torch.full((2, 5, 3, 3), 7.0)), torch.tensor(0.0), atol=1e-6, rtol=0)


def test_sure_choices_of_all_codes_alike_are_used_evenly():
    """Each of 4 cells is sure of another of 4 codes: every choice is log 4 from uniform, their mean is uniform."""
    logits = (1000 * torch.eye(4)).reshape(1, 4, 2, 2)
    assert_close(choice_divergence(logits), torch.tensor(math.log(4)))
    assert_close(usage_divergence(logits), torch.tensor(0.0), atol=1e-6, rtol=0)


def test_one_code_for_all_is_as_far_as_can_be():
    logits = torch.zeros(3, 8, 2, 2)
    logits[:, 5] = 1000.0
    assert_close(usage_divergence(logits), torch.tensor(math.log(8)))
    logits.requires_grad_()
    usage_divergence(logits).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_choice_is_usage_and_what_a_cell_tells():
    """KL(q || u) = KL(mean q || u) + I(cell; code)."""
    logits = torch.randn(2, 6, 3, 4)
    q = logits.softmax(1)
    tells = (q * (q / q.mean((0, 2, 3), keepdim=True)).log()).sum(1).mean()
    assert_close(choice_divergence(logits), usage_divergence(logits) + tells)


def test_usage_by_hand():
    usage = measure_usage(np.array([[0, 0, 2], [2, 5, 0]]), 7)  # shares 3/6, 2/6, 1/6
    assert usage.counts.tolist() == [3, 0, 2, 0, 0, 1, 0]
    assert usage.used == 3
    assert usage.perplexity == pytest.approx(2 ** (1 / 2) * 3 ** (1 / 3) * 6 ** (1 / 6))
    assert measure_usage(np.arange(9), 9).perplexity == pytest.approx(9)
    assert measure_usage(np.empty((0, 4), dtype=np.int64), 9).perplexity == 0


def test_a_collapse_is_reported_in_words():
    assert warn_of_collapse(480, 51.2, 512) is None
    line = warn_of_collapse(3, 2.6, 512)
    assert line is not None
    assert line.startswith("only 3 of 512 codes are used, as evenly as 2.6 would be: the vocabulary has collapsed")
    assert describe_usage(480, 51.25, 8192) == "480 of 8,192 codes are used, as evenly as 51.2 would be"


def test_only_hidden_cells_are_scored():
    codes, hidden = torch.tensor([[0, 1, 2], [2, 2, 0]]), torch.tensor([[True, False, True], [False, True, True]])
    every = torch.randn(2, 3, 4, requires_grad=True)
    losses = hidden_code_losses(every[hidden], codes, hidden)
    expected = -every.detach().log_softmax(-1).gather(2, codes[..., None])[..., 0]
    assert_close(losses.detach(), (expected * hidden).sum(1) / 2)
    losses.sum().backward()
    assert every.grad is not None
    assert (every.grad[~hidden] == 0).all()
    assert (every.grad[hidden].abs().sum(1) > 0).all()
    assert_close(losses.mean().detach(), F.cross_entropy(every.detach()[hidden], codes[hidden]))
