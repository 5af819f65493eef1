"""The objective of restoring: its loss, its measures as papers have them, and what it keeps for the report."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from vitrail.data.dataset import ArraySplit
from vitrail.data.degradation import parse_degradation
from vitrail.data.image_store import ImageStore
from vitrail.learn.metrics.psnr import psnr, to_luma
from vitrail.learn.metrics.restoration import measure
from vitrail.learn.metrics.ssim import ssim
from vitrail.learn.training.objective import Evaluation, Objective
from vitrail.models.restorer import Restorer
from vitrail.nn.functional.bicubic import resize_bicubic, round_levels
from vitrail.tasks.metric import find_metric
from vitrail.tasks.restore import objective as restore
from vitrail.tasks.restore.data import Pairs, whole_loader
from vitrail.tasks.restore.metrics import METRICS
from vitrail.tasks.restore.objective import Restore


class Enlarge(Restorer):
    """Bicubic enlarging, and a weight that moves it: what a restorer is to the task."""

    reach, tile_step = 2, 1

    def __init__(self, scale=1):
        super().__init__(SimpleNamespace(scale=scale, in_channels=3, out_channels=3))
        self.shift = nn.Parameter(torch.zeros(()))

    def forward(self, images):
        return (images if self.scale == 1 else resize_bicubic(images, float(self.scale))) + self.shift


def pairs(name, *, channels=3, count=3):
    generator = np.random.default_rng(0)
    small = generator.uniform(0, 255, (count, channels, 6, 5)).astype(np.float32)
    smooth = torch.nn.functional.interpolate(torch.from_numpy(small), size=(25, 22), mode="bicubic")
    images = round_levels(smooth).permute(0, 2, 3, 1).numpy().astype(np.uint8)
    split = ArraySplit(images.squeeze(3) if channels == 1 else images, np.zeros(count))
    return whole_loader(ImageStore(split, channels=channels, budget=0), parse_degradation(name), seed=4)


def test_it_satisfies_the_loop_and_tells_decibels():
    task = Restore(Enlarge(2), parse_degradation("sr2"))
    assert isinstance(task, Objective)
    assert find_metric(METRICS, task.score).format(33.6614) == "33.66 dB"
    found = task.evaluate(pairs("sr2").batches())
    assert isinstance(found, Evaluation)
    assert list(found.metrics) == ["loss", "psnr", "ssim", "psnr_given", "ssim_given"]


def test_the_loss_is_charbonniers_and_learns():
    task = Restore(Enlarge(), parse_degradation("noise25"))
    batch = Pairs(torch.zeros(2, 3, 4, 4), torch.full((2, 3, 4, 4), 0.2), torch.arange(2))
    loss = task.loss(batch)
    assert loss.item() == pytest.approx(math.sqrt(0.04 + 1e-6))
    loss.backward()
    assert task.model.shift.grad == pytest.approx(-1.0, abs=1e-4)
    exact = task.loss(Pairs(batch.truth, batch.truth, batch.indices))
    assert exact.item() == pytest.approx(1e-3)


def test_a_bicubic_model_scores_what_was_given_scores():
    how = parse_degradation("sr2")
    found = Restore(Enlarge(2), how).evaluate(pairs("sr2").batches())
    assert found.metrics["psnr"] == found.metrics["psnr_given"]
    assert found.metrics["ssim"] == found.metrics["ssim_given"]
    assert found.indices.tolist() == [0, 1, 2]
    example = found.examples[0]
    assert example.given.shape == example.truth.shape == (24, 22, 3)  # cut to multiples of the scale
    np.testing.assert_array_equal(example.given, example.restored)
    expected = psnr(to_luma(example.given), to_luma(example.truth), border=2)
    assert example.psnr_given == example.psnr_restored == pytest.approx(expected)
    rows = [psnr(to_luma(e.given), to_luma(e.truth), border=2) for e in found.examples]
    assert found.metrics["psnr"] == pytest.approx(np.mean(rows))  # a mean of decibels, not of squared errors


@pytest.mark.parametrize(
    ("name", "channels", "luma", "border"),
    [("sr3", 3, True, 3), ("real2", 3, True, 2), ("jpeg10", 3, True, 0), ("noise25", 3, False, 0), ("noise25", 1, False, 0),
     ("jpeg10", 1, False, 0), ("sr2", 1, False, 2)],
)  # fmt: skip
def test_measured_as_papers_do(name, channels, luma, border):
    """Enlarging and JPEG in color on Y, noise in color on RGB, gray on gray."""
    generator = np.random.default_rng(1)
    truth = generator.integers(0, 256, (20, 21, channels), dtype=np.uint8)
    other = generator.integers(0, 256, (20, 21, channels), dtype=np.uint8)
    a, b = (to_luma(other), to_luma(truth)) if luma else (other, truth)
    expected = psnr(a, b, border=border), ssim(a, b, border=border)
    assert measure(other, truth, parse_degradation(name)) == pytest.approx(expected)


def test_a_perfect_image_has_a_finite_score():
    images = [pair._replace(given=pair.truth) for pair in pairs("noise25").batches()]
    assert Restore(Enlarge(), parse_degradation("noise25")).evaluate(images).metrics["psnr"] == 100


def test_no_more_examples_than_a_page_shows():
    found = Restore(Enlarge(2), parse_degradation("sr2")).evaluate(pairs("sr2", count=11).batches())
    assert (len(found.examples), len(found.rows)) == (8, 11)


def test_large_images_are_restored_in_tiles(monkeypatch):
    calls = []

    def tiled(model, given, *, tile):
        calls.append(tile)
        return model(given)

    monkeypatch.setattr(restore, "restore_tiled", tiled)
    task = Restore(Enlarge(2), parse_degradation("sr2"))
    monkeypatch.setattr(restore, "WHOLE", 12)
    task.evaluate(pairs("sr2").batches())
    assert calls == []
    monkeypatch.setattr(restore, "WHOLE", 11)  # what is given is 12 high
    monkeypatch.setattr(restore, "TILE", 5)
    assert task.evaluate(pairs("sr2").batches()).metrics["psnr"] > 30
    assert calls == [5] * 3
