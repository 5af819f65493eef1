"""Gumbel's softmax: towards 0 a choice, at 1 with no noise the softmax, and its draws have the softmax's shares."""

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitrail.models.dvae import gumbel_noise, gumbel_softmax


def test_towards_zero_it_is_the_one_hot_of_the_arg_max():
    logits, noise = torch.randn(2, 7, 3, 5), gumbel_noise(torch.empty(2, 7, 3, 5))
    found = gumbel_softmax(logits, noise, 1e-6)
    assert_close(found, F.one_hot((logits + noise).argmax(1), 7).movedim(-1, 1).float())


def test_without_noise_at_temperature_one_it_is_the_softmax():
    logits = torch.randn(2, 7, 3, 5)
    assert_close(gumbel_softmax(logits, torch.zeros(2, 7, 3, 5), 1.0), logits.softmax(1))


def test_choices_have_the_shares_of_the_softmax():
    torch.manual_seed(0)
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0])[None, :, None, None].expand(1, 4, 100, 200)
    chosen = (logits + gumbel_noise(logits)).argmax(1)
    shares = torch.bincount(chosen.flatten(), minlength=4) / chosen.numel()
    assert_close(shares, logits[0, :, 0, 0].softmax(0), atol=0.015, rtol=0)


def test_noise_is_never_infinite():
    torch.manual_seed(1)
    assert gumbel_noise(torch.empty(300_000)).isfinite().all()
