"""The losses against their formulas, and the weights that balance classes."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from vitrail.learn.losses.balance import class_weights
from vitrail.learn.losses.binary_cross_entropy import binary_cross_entropy
from vitrail.learn.losses.cross_entropy import cross_entropy


@pytest.fixture
def logits():
    return torch.randn(7, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_weighted_cross_entropy_is_its_formula(logits, smoothing):
    labels, weights = torch.tensor([0, 1, 2, 3, 4, 0, 0]), torch.tensor([0.2, 3.0, 1.0, 0.5, 2.0])
    logs = logits.log_softmax(-1)
    targets = (1 - smoothing) * torch.eye(5)[labels] + smoothing / 5
    expected = -(weights * targets * logs).sum() / weights[labels].sum()
    assert_close(cross_entropy(logits, labels, smoothing=smoothing, weights=weights), expected)
    assert_close(
        cross_entropy(logits, labels, smoothing=smoothing, weights=torch.ones(5)),
        cross_entropy(logits, labels, smoothing=smoothing),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_weighted_binary_cross_entropy_is_its_formula(logits, smoothing):
    labels, weights = torch.rand(7, 5) < 0.4, torch.tensor([0.2, 3.0, 1.0, 0.5, 2.0])
    targets = labels * (1 - smoothing) + smoothing / 2
    p = logits.sigmoid()
    factors = torch.where(labels, weights, 1.0)
    expected = -(factors * (targets * p.log() + (1 - targets) * (1 - p).log())).mean()
    assert_close(binary_cross_entropy(logits, labels, smoothing=smoothing, weights=weights), expected)
    assert_close(binary_cross_entropy(1e4 * (labels * 2.0 - 1), labels), torch.tensor(0.0))  # no overflow


def test_positive_weights_are_torchs_without_smoothing(logits):
    labels, weights = torch.rand(7, 5) < 0.4, torch.tensor([0.2, 3.0, 1.0, 0.5, 2.0])
    expected = F.binary_cross_entropy_with_logits(logits, labels.float(), pos_weight=weights)
    assert_close(binary_cross_entropy(logits, labels, weights=weights), expected)


def test_a_heavy_label_that_is_never_there_is_not_said():
    """The best logit for an absent label is that of the smoothed target, whatever the weight of its positives."""
    logits, labels = torch.zeros(4, 1, requires_grad=True), torch.zeros(4, 1, dtype=torch.bool)
    optimizer = torch.optim.LBFGS([logits], max_iter=50)

    def closure():
        optimizer.zero_grad()
        loss = binary_cross_entropy(logits, labels, smoothing=0.1, weights=torch.tensor([100.0]))
        loss.backward()
        return loss

    optimizer.step(closure)
    assert_close(logits.sigmoid(), torch.full((4, 1), 0.05), atol=1e-3, rtol=0)


# Shares of classes, as mixing makes them


@pytest.fixture
def weights():
    return torch.tensor([0.2, 3.0, 1.0, 0.5, 2.0])


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_row_with_one_class_is_its_label(logits, weights, smoothing, weighted):
    labels, several = torch.tensor([0, 1, 2, 3, 4, 0, 0]), torch.rand(7, 5, generator=torch.Generator().manual_seed(1)) < 0.4
    options = {"smoothing": smoothing, "weights": weights if weighted else None}
    assert_close(cross_entropy(logits, torch.eye(5)[labels], **options), cross_entropy(logits, labels, **options))
    assert_close(binary_cross_entropy(logits, several.float(), **options), binary_cross_entropy(logits, several, **options))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_of_shares_is_its_formula(logits, weights, smoothing):
    shares = torch.rand(7, 5, generator=torch.Generator().manual_seed(1)).softmax(-1)
    targets, logs = (1 - smoothing) * shares + smoothing / 5, logits.log_softmax(-1)
    assert_close(cross_entropy(logits, shares, smoothing=smoothing), -(targets * logs).sum() / 7)
    expected = -(weights * targets * logs).sum() / (weights * shares).sum()
    assert_close(cross_entropy(logits, shares, smoothing=smoothing, weights=weights), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_mixed_batch_costs_what_its_parts_cost(logits, weights, smoothing, weighted):
    """lambda L(y) + (1 - lambda) L(y')  [Zhang+ 2018]; by its weights, where there are any."""
    first, second, kept = torch.tensor([0, 1, 2, 3, 4, 0, 0]), torch.tensor([3, 1, 4, 0, 2, 2, 1]), 0.7
    options = {"smoothing": smoothing, "weights": weights if weighted else None}
    parts = [cross_entropy(logits, labels, **options) for labels in (first, second)]
    heavy = [float(weights[labels].sum()) if weighted else 1.0 for labels in (first, second)]
    expected = (kept * heavy[0] * parts[0] + (1 - kept) * heavy[1] * parts[1]) / (kept * heavy[0] + (1 - kept) * heavy[1])
    mixed = kept * torch.eye(5)[first] + (1 - kept) * torch.eye(5)[second]
    assert_close(cross_entropy(logits, mixed, **options), expected)

    several, others = torch.rand(2, 7, 5, generator=torch.Generator().manual_seed(1)) < 0.4
    expected = kept * binary_cross_entropy(logits, several, **options) + (1 - kept) * binary_cross_entropy(
        logits, others, **options
    )
    assert_close(binary_cross_entropy(logits, kept * several + (1 - kept) * others, **options), expected)


@pytest.mark.parametrize("weights", [None, torch.tensor([0.2, 3.0, 1.0, 0.5, 2.0])])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_losses_of_images_have_the_batchs_loss_as_their_mean(logits, smoothing, weights):
    labels = torch.tensor([0, 1, 2, 3, 4, 0, 0])
    shares = torch.rand(7, 5, generator=torch.Generator().manual_seed(1)).softmax(-1)
    options = {"smoothing": smoothing, "weights": weights}
    for objective, targets in ((cross_entropy, labels), (cross_entropy, shares), (binary_cross_entropy, shares > 0.2),
                               (binary_cross_entropy, shares)):  # fmt: skip
        each = objective(logits, targets, **options, reduction="none")
        assert each.shape == (7,)
        assert_close(each.mean(), objective(logits, targets, **options))
        changed = torch.cat([logits[:6], -logits[6:]])
        assert_close(objective(changed, targets, **options, reduction="none")[:6], each[:6])


def test_a_class_without_weight_has_no_say(logits):
    weights = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0])
    assert binary_cross_entropy(logits, torch.ones(7, 5), weights=weights).isfinite()


def test_losses_are_in_full_precision(logits):
    half = logits.bfloat16()
    assert cross_entropy(half, torch.zeros(7, dtype=torch.int64)).dtype == torch.float32
    assert binary_cross_entropy(half, torch.zeros(7, 5, dtype=torch.bool)).dtype == torch.float32
    assert cross_entropy(half, torch.full((7, 5), 0.2), weights=torch.ones(5)).dtype == torch.float32
    assert binary_cross_entropy(half, torch.full((7, 5), 0.2), weights=torch.ones(5)).dtype == torch.float32


def test_known_weights():
    np.testing.assert_allclose(class_weights(np.array([0, 0, 0, 1]), 2), [4 / (2 * 3), 4 / (2 * 1)])
    np.testing.assert_allclose(class_weights(np.array([0, 0, 2, 2]), 3), [1, 1, 1])  # the second has no images
    many = np.zeros((1000, 4), dtype=bool)
    many[:250, 0] = many[:1, 1] = many[:, 2] = True
    np.testing.assert_allclose(class_weights(many, 4), [3, 100, 0.01, 1])


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60))
def test_an_image_weighs_one_on_average_and_every_class_the_same(labels):
    labels = np.array(labels)
    weights = class_weights(labels, 7)
    assert weights.dtype == np.float32
    assert weights[labels].mean() == pytest.approx(1, rel=1e-5)
    totals = np.bincount(labels, weights=weights[labels], minlength=7)
    assert np.ptp(totals[totals > 0]) < 1e-4
