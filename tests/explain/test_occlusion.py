"""Occlusion and gradient × input: known answers on models that are known."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain import input_gradient, occlusion
from vitrail.explain.occlusion import log_odds, squares
from vitrail.models.classifier import Classifier
from vitrail.preprocessing import neutral


class Linear(Classifier):
    """Logits (<w, x>, 0); its features are one map, half the image's size."""

    def __init__(self, weight):
        super().__init__(SimpleNamespace(in_channels=1, image_size=(4, 6), num_classes=2), neutral((4, 6), 1))
        self.weight = nn.Parameter(weight)

    def forward_features(self, images):
        return (nn.functional.avg_pool2d(images * self.weight, 2) * 4,)

    def forward_head(self, maps):
        score = maps[-1].sum((1, 2, 3))
        return torch.stack([score, torch.zeros_like(score)], 1)

    def forward(self, images):
        return self.forward_head(self.forward_features(images))


def linear():
    torch.manual_seed(0)
    return Linear(torch.randn(4, 6)), torch.randn(2, 1, 4, 6)


def in_cells(values):
    return values[:, 0].reshape(2, 2, 2, 3, 2).sum((2, 4))


def test_hiding_a_cell_of_a_linear_model_takes_its_part_of_the_score():
    model, images = linear()
    target = torch.zeros(2, dtype=torch.long)
    assert_close(occlusion(model, images, target, fill="zero"), in_cells(images * model.weight.detach()))
    color = images.mean((2, 3), keepdim=True)
    expected = in_cells((images - color) * model.weight.detach())
    assert_close(occlusion(model, images, target), expected)
    assert_close(occlusion(model, images, target + 1), -expected)  # the other class has the opposite log-odds


def test_larger_squares_are_averaged_over_all_that_hide_a_cell():
    model, images = linear()
    target = torch.zeros(2, dtype=torch.long)
    one = in_cells(images * model.weight.detach())
    left, right = one[:, :, :2].sum((1, 2)), one[:, :, 1:].sum((1, 2))
    row = torch.stack([left, (left + right) / 2, right], 1)
    assert_close(occlusion(model, images, target, size=2, fill="zero"), row[:, None].expand(-1, 2, -1))


def test_gradient_times_input_of_a_linear_model_is_the_size_of_its_parts():
    model, images = linear()
    expected = in_cells((images * model.weight.detach()).abs())
    assert_close(input_gradient(model, images, torch.zeros(2, dtype=torch.long)), expected)
    with torch.inference_mode():
        nothing = input_gradient(
            model, images.clone(), torch.ones(2, dtype=torch.long)
        )  # the other logit is 0 whatever it sees
    assert_close(nothing, torch.zeros(2, 2, 3))
    assert model.weight.grad is None


def test_squares():
    found = squares((2, 3), 2)
    assert found.int().tolist() == [[[1, 1, 0], [1, 1, 0]], [[0, 1, 1], [0, 1, 1]]]
    assert squares((2, 3), 1).flatten(1).equal(torch.eye(6).bool())
    for wrong in (0, 3):
        with pytest.raises(vt.VitrailError, match=f"from 1 to 2 cells on a grid of 2x3, got {wrong}"):
            squares((2, 3), wrong)


def test_log_odds():
    logits, target = torch.tensor([[1.0, 2.0, 0.5]]), torch.tensor([1])
    p = logits.softmax(1)[:, 1]
    assert_close(log_odds(logits, target), (p / (1 - p)).log())
    assert_close(log_odds(logits, target, multi_label=True), torch.tensor([2.0]))
    assert_close(log_odds(logits[:, :1], torch.tensor([0])), torch.tensor([1.0]))


def test_passes_of_some_images_give_what_one_does(monkeypatch):
    model, images = vt.create_model("vit_nano_conv", image_size=(16, 24), num_classes=3), torch.randn(2, 3, 16, 24)
    whole = occlusion(model, images)
    assert whole.shape == (2, 8, 12)
    monkeypatch.setattr(sys.modules["vitrail.explain.hiding"], "IMAGES", 14)
    assert_close(occlusion(model, images), whole, atol=1e-5, rtol=1e-4)
