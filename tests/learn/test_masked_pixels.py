"""The loss of a masked autoencoder: by hand, blind to what is seen, and its normalized targets."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.learn.losses.masked_pixels import EPS, flat_losses, masked_pixel_losses, normalize_patches, patch_statistics


def test_by_hand():
    predicted = torch.tensor([[[1.0, 1.0], [9.0, 9.0], [0.0, 4.0]]])
    target = torch.tensor([[[0.0, 2.0], [0.0, 0.0], [0.0, 0.0]]])
    hidden = torch.tensor([[True, False, True]])
    assert_close(masked_pixel_losses(predicted, target, hidden), torch.tensor([(1.0 + 8.0) / 2]))
    assert_close(flat_losses(target, hidden), torch.tensor([(1.0 + 0.0) / 2]))


def test_normalized_patches_have_mean_0_and_unbiased_variance_1():
    patches = 3 + 5 * torch.randn(2, 7, 11)
    found = normalize_patches(patches)
    assert_close(found.mean(-1), torch.zeros(2, 7), atol=1e-5, rtol=0.0)
    assert_close(found.var(-1), torch.ones(2, 7), atol=1e-5, rtol=0.0)
    mean, deviation = patch_statistics(patches)
    assert_close(found * deviation + mean, patches, atol=1e-5, rtol=1e-5)


def test_a_patch_of_one_color_is_all_zeros():
    assert_close(normalize_patches(torch.full((1, 2, 5), 7.0)), torch.zeros(1, 2, 5))
    assert patch_statistics(torch.full((1, 1, 5), 7.0))[1].item() == pytest.approx(EPS**0.5)


@pytest.mark.parametrize("normalize", [True, False])
def test_what_was_seen_does_not_count(normalize):
    """Neither what is drawn there nor what is there has a gradient."""
    predicted, pixels = (torch.randn(2, 7, 11, requires_grad=True) for _ in range(2))
    hidden = torch.rand(2, 7) < 0.5
    hidden[:, 0], hidden[:, 1] = True, False
    target = normalize_patches(pixels) if normalize else pixels
    gradients = torch.autograd.grad(masked_pixel_losses(predicted, target, hidden).sum(), (predicted, pixels))
    for gradient in gradients:
        assert gradient[~hidden].eq(0).all()
        assert gradient[hidden].abs().sum(-1).gt(0).all()


def test_each_image_counts_the_same_whatever_it_is_with():
    predicted, target, hidden = torch.randn(5, 7, 11), torch.randn(5, 7, 11), torch.rand(5, 7) < 0.6
    hidden[:, 2] = True
    together = masked_pixel_losses(predicted, target, hidden)
    alone = [masked_pixel_losses(predicted[i : i + 1], target[i : i + 1], hidden[i : i + 1]) for i in range(5)]
    assert_close(together, torch.cat(alone))
