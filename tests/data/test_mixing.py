"""Mixing keeps sums, its boxes have the area that the targets say, and its draws are Beta's."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from vitrail.data import mixing as module
from vitrail.data.mixing import Mixing, box, cutmix, mix, mixup
from vitrail.errors import VitrailError

UNIT = st.floats(0, 1, exclude_max=True)


def batch(count=6, classes=4, size=(7, 11)):
    images = torch.rand(count, 3, *size, generator=torch.Generator().manual_seed(0))
    return images, torch.eye(classes)[torch.arange(count) % classes]


def kept_of(how, *, count=3000, **stream):
    """The share of its own that each of many batches kept; targets of a pair tell it."""
    images, targets = torch.zeros(2, 1, 50, 50), torch.eye(2)
    options = {"seed": 0, "epoch": 0} | stream
    return np.array([mix(images, targets, how, **options, indices=np.array([i, 0]))[1][0, 0].item() for i in range(count)])


def test_mixup_by_hand():
    images, targets = torch.tensor([0.0, 0.5, 1.0])[:, None, None, None].expand(3, 1, 2, 2), torch.eye(3)
    out, shares = mixup(images, targets, 0.75)
    assert_close(out[:, 0, 0, 0], torch.tensor([0.25, 0.5, 0.75]))
    assert_close(shares, torch.tensor([[0.75, 0, 0.25], [0, 1, 0], [0.25, 0, 0.75]]))


def test_cutmix_pixel_by_pixel():
    images, targets = batch()
    out, shares = cutmix(images, targets, (2, 5, 3, 8))
    inside = torch.zeros(7, 11, dtype=torch.bool)
    inside[2:5, 3:8] = True
    assert torch.equal(out[:, :, inside], images.flip(0)[:, :, inside])
    assert torch.equal(out[:, :, ~inside], images[:, :, ~inside])
    assert_close(shares, (1 - 15 / 77) * targets + 15 / 77 * targets.flip(0))


def test_all_kept_is_the_same_and_nothing_kept_is_the_partner():
    images, targets = batch()
    for change, all_kept, none_kept in ((mixup, 1.0, 0.0), (cutmix, (3, 3, 5, 5), (0, 7, 0, 11))):
        assert all(torch.equal(a, b) for a, b in zip(change(images, targets, all_kept), (images, targets), strict=True))
        partner = (images.flip(0), targets.flip(0))
        assert all(torch.equal(a, b) for a, b in zip(change(images, targets, none_kept), partner, strict=True))


@given(UNIT, UNIT, UNIT, st.integers(1, 40), st.integers(1, 40))
def test_a_box_lies_within_the_image_and_is_not_larger_than_asked(kept, row, column, height, width):
    top, bottom, left, right = box(kept, row, column, height, width)
    assert 0 <= top <= bottom <= height
    assert 0 <= left <= right <= width
    side = (1 - kept) ** 0.5
    assert bottom - top <= side * height + 0.5
    assert right - left <= side * width + 0.5


def test_a_box_by_hand():
    assert box(0.75, 0.5, 0.5, 8, 12) == (2, 6, 3, 9)  # half of each side about the middle
    assert box(0.75, 0.0, 0.95, 8, 12) == (0, 2, 8, 12)  # cut off at the top and on the right
    assert box(1.0, 0.5, 0.5, 8, 12) == (4, 4, 6, 6)
    assert box(0.0, 0.5, 0.5, 8, 12) == (0, 8, 0, 12)


@given(st.integers(0, 10**6), st.integers(0, 100), st.integers(1, 9), st.sampled_from([(0.8, 0.0), (0.0, 1.0), (0.3, 2.0)]))
def test_what_an_image_shows_is_what_its_targets_say(seed, epoch, count, alphas):
    """Each class a color of its own: the mean over the pixels must be the targets."""
    targets = torch.eye(9)[:count]
    images = targets[:, :, None, None].expand(-1, -1, 6, 8)
    how = Mixing(mixup=alphas[0], cutmix=alphas[1])
    out, shares = mix(images, targets, how, seed=seed, epoch=epoch, indices=np.arange(count))
    assert_close(out.mean((2, 3)), shares, atol=1e-6, rtol=0)
    assert_close(shares.sum(1), torch.ones(count))
    assert shares.min() >= 0


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_lambda_is_drawn_from_beta(alpha):
    kept = kept_of(Mixing(mixup=alpha))
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(kept.mean() - 0.5) < 4 * (variance / len(kept)) ** 0.5
    assert abs(kept.var() - variance) < 0.1 * variance


def test_cut_off_boxes_leave_more_than_lambda():
    """Against the mean of the share, by integration, for a uniform lambda."""
    kept = kept_of(Mixing(cutmix=1.0))
    sides = (
        np.arange(4000) + 0.5
    ) / 4000  # s = sqrt(1 - lambda) has density 2 s; a side that is cut off is s - s^2/4 long on average
    expected = 1 - np.mean(2 * sides * (sides - sides**2 / 4) ** 2)
    assert abs(kept.mean() - expected) < 0.02
    assert kept.mean() > 0.6


def test_a_share_of_the_batches_is_mixed():
    kept = kept_of(Mixing(mixup=1.0, share=0.3))
    assert abs((kept < 1).mean() - 0.3) < 0.035


def test_each_kind_takes_half(monkeypatch):
    taken = []
    for name in ("mixup", "cutmix"):
        monkeypatch.setattr(module, name, lambda images, targets, _, name=name: taken.append(name) or (images, targets))
    kept_of(Mixing(mixup=0.5, cutmix=0.5), count=1000)
    assert 440 < taken.count("mixup") < 560
    assert len(taken) == 1000


def test_draws_depend_on_seed_epoch_and_first_index_only():
    images, targets = batch()
    how = Mixing(mixup=0.8, cutmix=1.0)

    def mixed(seed, epoch, first, last=5):
        return mix(images, targets, how, seed=seed, epoch=epoch, indices=np.array([first, 1, 2, 3, 4, last]))

    torch.manual_seed(0)
    before = torch.get_rng_state()
    once = mixed(1, 2, 3)
    assert all(torch.equal(a, b) for a, b in zip(once, mixed(1, 2, 3, last=77), strict=True))
    keys = [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4), (1, 2, 3 + 2**40), (-1, 2, 3)]
    assert len({tuple(mixed(*key)[0].flatten().tolist()) for key in keys}) == len(keys)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(batch(), (images, targets), strict=True)), "the caller's batch is not touched"


def test_draws_are_a_golden_value():
    """Resuming a run of an older version depends on them."""
    how = Mixing(mixup=0.8, cutmix=1.0, share=0.9)
    assert kept_of(how, count=6, seed=1, epoch=2).round(4).tolist() == [0.8248, 1.0, 0.6436, 0.6709, 0.4077, 0.0735]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"mixup": -0.1}, "the alpha of mixup must be 0 or more, got -0.1"),
        ({"cutmix": float("nan")}, "the alpha of cutmix must be 0 or more, got nan"),
        ({"share": 1.1}, "the share of mixed batches must be from 0 to 1, got 1.1"),
    ],
)
def test_settings_that_do_not_exist(options, reason):
    with pytest.raises(VitrailError, match=reason):
        Mixing(**options)


def test_nothing_to_mix():
    images, targets = batch()
    for how in (Mixing(), Mixing(share=0.5), Mixing(mixup=1.0, share=0.0)):
        assert not how
        out, shares = mix(images, targets, how, seed=0, epoch=0, indices=np.arange(6))
        assert out is images
        assert shares is targets
