"""The classification task, with one label per image and with any number of them."""

import itertools
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.data.image_source import Batch
from vitrail.learn.training.objective import Evaluation, Objective
from vitrail.models.classifier import Classifier
from vitrail.preprocessing import neutral
from vitrail.tasks.classify.objective import Classify, Predictions

TRUTH = np.array([1, 1, 0, 2])
LOGITS = np.log(np.array([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6]], dtype=np.float32))
LABELS = np.array(
    [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]], dtype=bool
)  # a class without positives, an image without labels
SCORES = np.array([[2, -1, -3], [-1, 1, -2], [1, 3, -1], [-4, -2, -2]], dtype=np.float32)


def draw(count, classes, *, multi_label, seed=0):
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(count, classes)).astype(np.float32)
    truth = generator.random((count, classes)) < 0.1 if multi_label else generator.integers(classes, size=count)
    return Predictions(logits=logits, truth=truth)


# One label


def test_metrics_of_one_label_by_hand():
    predictions = Predictions(logits=LOGITS, truth=TRUTH)
    metrics = predictions.metrics
    assert list(metrics) == ["loss", "accuracy", "macro_f1", "balanced_accuracy", "ece"]
    assert metrics["loss"] == pytest.approx(-np.log([0.7, 0.3, 0.6, 0.6]).mean())
    assert metrics["accuracy"] == 0.75
    assert metrics["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert metrics["balanced_accuracy"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert metrics["ece"] == pytest.approx((0.3 + 0.5 + 2 * 0.4) / 4, abs=1e-6)  # bins of 1/15: 0.7, 0.5 and the 0.6s apart
    assert predictions.score_name == "accuracy"
    np.testing.assert_allclose(predictions.probabilities, np.exp(LOGITS), rtol=1e-6)
    np.testing.assert_array_equal(predictions.decisions, np.eye(3, dtype=bool)[[1, 0, 0, 2]])


def test_top5_is_reported_of_many_classes():
    assert "top5" not in draw(20, 10, multi_label=False).metrics
    metrics = draw(50, 11, multi_label=False).metrics
    assert 0 < metrics["accuracy"] < metrics["top5"] < 1


# Many labels


def test_metrics_of_many_labels_by_hand():
    predictions = Predictions(logits=SCORES, truth=LABELS)
    metrics = predictions.metrics
    assert list(metrics) == ["loss", "map", "f1_micro", "f1_macro", "exact_match"]
    p = 1 / (1 + np.exp(-SCORES.astype(np.float64)))
    assert metrics["loss"] == pytest.approx(-np.log(np.where(LABELS, p, 1 - p)).mean())
    first, second = (1 + 2 / 3) / 2, 1  # ranked 2, 1, -1, -4 with positives first and third; 3, 1, -1, -2 with the first two
    assert metrics["map"] == pytest.approx((first + second) / 2)
    assert metrics["f1_micro"] == pytest.approx(2 * 3 / (4 + 4))  # said: 0 of 0; 1 of 1; 0 and 1 of 2
    assert metrics["f1_macro"] == pytest.approx((1 / 2 + 1) / 2)
    assert metrics["exact_match"] == 0.5
    assert predictions.score_name == "map"
    np.testing.assert_allclose(predictions.probabilities, p, rtol=1e-5)


def test_probabilities_of_extreme_logits():
    extreme = np.array([[-1e4, 1e4, 0.0]], dtype=np.float32)
    for truth in (np.array([0]), np.array([[True, False, False]])):
        probabilities = Predictions(logits=extreme, truth=truth).probabilities
        assert probabilities.dtype == np.float32
        np.testing.assert_allclose(probabilities[0, :2], [0, 1])


def test_labels_that_are_nowhere_leave_numbers():
    nothing = Predictions(logits=SCORES, truth=np.zeros_like(LABELS))
    assert all(math.isfinite(value) for value in nothing.metrics.values())
    assert nothing.metrics["map"] == 0
    assert nothing.error == 0.25
    json.dumps(nothing.metrics, allow_nan=False)


def test_a_loss_that_is_no_number_is_not_hidden():
    broken = np.full((4, 3), np.nan, dtype=np.float32)
    assert math.isnan(Predictions(logits=broken, truth=TRUTH).metrics["loss"])
    assert math.isnan(Predictions(logits=broken, truth=LABELS).metrics["loss"])


def test_names_do_not_depend_on_the_values():  # each is a column of results.csv
    for multi_label in (False, True):
        many = [draw(5, 3, multi_label=multi_label, seed=seed).metrics for seed in range(5)]
        assert len({tuple(metrics) for metrics in many}) == 1


# Error and interval


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_interval_holds_the_score_and_is_about_four_errors_wide(multi_label):
    predictions = draw(400, 5, multi_label=multi_label)
    low, high = predictions.interval
    assert low < predictions.metrics[predictions.score_name] < high
    assert high - low == pytest.approx(2 * 1.96 * predictions.error, rel=0.2)
    assert predictions.interval == (low, high)


def test_the_error_is_at_least_one_image():
    assert Predictions(logits=SCORES, truth=SCORES > 0).error == 0.25
    assert Predictions(logits=100 * np.eye(3, dtype=np.float32)[TRUTH], truth=TRUTH).error == 0.25


@pytest.mark.parametrize("multi_label", [False, True])
def test_metrics_and_error_of_an_epoch_are_quick(multi_label, effort):
    """No loop over the images, and no more memory than some copies of the logits."""
    assert draw(100, 100, multi_label=multi_label).metrics  # imports
    calls = []
    for count in (1_000, 10_000):
        predictions = draw(count, 100, multi_label=multi_label)
        with effort(memory=True) as spent:
            assert predictions.metrics
            assert predictions.error
        calls.append(spent.calls)
        assert spent.memory < 20 * predictions.logits.nbytes
    assert calls[1] < calls[0] + 200
    assert calls[1] < 10_000


# The task


class Toy(Classifier):
    """Two numbers per image to three classes."""

    def __init__(self):
        super().__init__(SimpleNamespace(image_size=(1, 2), in_channels=1, num_classes=3), neutral((1, 2), 1))
        self.linear, self.dropout = nn.Linear(2, 3), nn.Dropout(0.5)

    def forward(self, images):
        return self.dropout(self.linear(images.flatten(1)))


def batches(truth):
    points = np.random.default_rng(0).normal(size=(len(truth), 2)).astype(np.float32)
    points[:, 0] += 4 * (truth.argmax(axis=1) if truth.ndim == 2 else truth)
    for part in np.array_split(np.arange(len(truth)), 3):
        yield Batch(torch.from_numpy(points[part]).reshape(-1, 1, 1, 2), torch.from_numpy(truth[part]), torch.from_numpy(part))


@pytest.mark.parametrize("multi_label", [False, True])
def test_evaluation_keeps_the_order_and_leaves_the_model_as_it_was(multi_label):
    truth = np.random.default_rng(1).integers(3, size=17)
    truth = np.eye(3, dtype=bool)[truth] if multi_label else truth
    task = Classify(Toy().train(), multi_label=multi_label)
    found = task.evaluate(batches(truth))
    np.testing.assert_array_equal(found.truth, truth)
    assert task.model.training
    images = torch.cat([batch.images for batch in batches(truth)])
    with torch.inference_mode():
        assert_close(torch.from_numpy(found.logits), task.model.eval()(images))
    assert isinstance(task, Objective)
    assert isinstance(found, Evaluation)
    assert task.score == found.score_name == ("map" if multi_label else "accuracy")


@pytest.mark.parametrize("multi_label", [False, True])
def test_it_learns(multi_label):
    torch.manual_seed(0)
    truth = np.random.default_rng(1).integers(3, size=90)
    truth = np.arange(3) >= truth[:, None] if multi_label else truth  # one to three labels
    task = Classify(Toy(), multi_label=multi_label, smoothing=0.1)
    task.model.dropout.p = 0.0
    optimizer = torch.optim.Adam(task.model.parameters(), lr=0.1)
    before = task.evaluate(batches(truth)).metrics
    for batch in itertools.chain.from_iterable(batches(truth) for _ in range(40)):
        optimizer.zero_grad()
        task.loss(batch).backward()
        optimizer.step()
    after = task.evaluate(batches(truth)).metrics
    assert after["loss"] < before["loss"]
    assert after[task.score] > max(0.9, before[task.score])


def test_weights_reach_the_loss():
    model = Toy().eval()
    for labels in (np.arange(3), np.eye(3, dtype=bool)):
        multi_label = labels.ndim == 2
        one = next(batches(labels))
        plain = Classify(model, multi_label=multi_label).loss(one)
        even = Classify(model, multi_label=multi_label, weights=torch.ones(3)).loss(one)
        heavy = Classify(model, multi_label=multi_label, weights=torch.tensor([9.0, 1.0, 1.0])).loss(one)
        assert_close(plain, even)
        assert (heavy > plain) == multi_label  # with one label a batch is normalized by its weights: here, a single image
