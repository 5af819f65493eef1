"""Deletion and insertion curves: known answers on a model that is known."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain import deletion_curve, explain_map, insertion_curve
from vitrail.explain.faithfulness import changes, ranks
from vitrail.explain.hiding import blanked


class Linear(nn.Module):
    """Logits (<w, x>, 0): the probability of class 0 is the logistic function of what is shown."""

    num_classes = 2

    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, images):
        score = (images * self.weight).sum((1, 2, 3))
        return torch.stack([score, torch.zeros_like(score)], 1)


def logistic(x):
    return 1 / (1 + math.exp(-x))


# Two cells of 2x2 pixels each side by side; the mean color is 0, so a removed cell adds nothing. Cells add 4 and 2 to the score.
IMAGE = torch.tensor([[[[1.0, 1.0, -1.0, -1.0], [1.0, 1.0, -1.0, -1.0]]]])
MODEL = Linear([[1.0, 1.0, -0.5, -0.5], [1.0, 1.0, -0.5, -0.5]])
RIGHT_FIRST, LEFT_FIRST = torch.tensor([[[0.1, 0.9]]]), torch.tensor([[[0.9, 0.1]]])


def test_by_hand():
    found = deletion_curve(MODEL, IMAGE, LEFT_FIRST)
    expected = [logistic(6), logistic(2), 0.5]
    assert_close(found.shares, torch.tensor([0.0, 0.5, 1.0]))
    assert_close(found.scores, torch.tensor([expected]))
    assert_close(found.area, torch.tensor([expected[0] / 4 + expected[1] / 2 + expected[2] / 4]))
    assert_close(deletion_curve(MODEL, IMAGE, RIGHT_FIRST).scores, torch.tensor([[logistic(6), logistic(4), 0.5]]))
    assert_close(insertion_curve(MODEL, IMAGE, LEFT_FIRST).scores, torch.tensor([[0.5, logistic(4), logistic(6)]]))
    assert_close(insertion_curve(MODEL, IMAGE, RIGHT_FIRST).scores, torch.tensor([[0.5, logistic(2), logistic(6)]]))


def test_the_class_stays_that_of_the_whole_image_unless_one_is_given():
    found = deletion_curve(MODEL, IMAGE, LEFT_FIRST, torch.tensor([1]))
    assert_close(found.scores, 1 - deletion_curve(MODEL, IMAGE, LEFT_FIRST).scores)
    against = Linear([[1.0, 1.0, 3.0, 3.0], [1.0, 1.0, 3.0, 3.0]])  # cells add 4 and -12: class 1, until the right cell is gone
    found = deletion_curve(against, IMAGE, RIGHT_FIRST)
    assert_close(found.scores, torch.tensor([[1 - logistic(-8), 1 - logistic(4), 0.5]]))


def test_every_image_has_its_own_mean_color_order_and_class():
    torch.manual_seed(0)
    model = Linear(torch.randn(6, 9).tolist())
    images, maps = torch.randn(5, 2, 6, 9), torch.rand(5, 3, 3)
    for curve in (deletion_curve, insertion_curve):
        together = curve(model, images, maps)
        assert together.scores.shape == (5, 10)
        for i in range(5):
            alone = curve(model, images[i : i + 1], maps[i : i + 1])
            assert_close(together.scores[i : i + 1], alone.scores)
            assert_close(together.area[i : i + 1], alone.area)
    assert_close(deletion_curve(model, images, maps).scores, insertion_curve(model, images, -maps).scores.flip(1))


def test_the_true_order_of_a_linear_model_beats_every_other():
    torch.manual_seed(1)
    model, images = Linear(torch.randn(4, 4).tolist()), torch.randn(1, 1, 4, 4)
    parts = ((images - images.mean()) * model.weight.detach())[:, 0]
    target = torch.tensor([0])
    best = insertion_curve(model, images, parts, target).area - deletion_curve(model, images, parts, target).area
    for seed in range(20):
        other = torch.rand(1, 4, 4, generator=torch.Generator().manual_seed(seed))
        found = insertion_curve(model, images, other, target).area - deletion_curve(model, images, other, target).area
        assert float(found) < float(best)


def test_steps_are_points_of_the_whole_curve():
    torch.manual_seed(2)
    model, images, maps = Linear(torch.randn(6, 8).tolist()), torch.randn(3, 1, 6, 8), torch.rand(3, 3, 4)
    whole, some = (insertion_curve(model, images, maps, steps=steps) for steps in (None, 4))
    assert_close(some.shares, torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0]))
    assert_close(some.scores, whole.scores[:, ::3])
    assert changes(7, 3).tolist() == [0, 2, 4, 7]


def test_ranks():
    assert ranks(torch.tensor([[[0.1, 0.5], [0.1, 0.9]]])).tolist() == [[[2, 1], [3, 0]]]


def test_what_stands_in_a_removed_cell():
    torch.manual_seed(3)
    images = torch.randn(2, 3, 16, 24)
    assert_close(blanked(images, "mean"), images.mean((2, 3), keepdim=True).expand(-1, -1, 16, 24))
    flat = torch.full((1, 1, 16, 24), 0.7)
    assert_close(blanked(flat, "blur"), flat)
    point = torch.zeros(1, 1, 17, 17)
    point[0, 0, 8, 8] = 1
    blurred = blanked(point, "blur")[0, 0]
    assert_close(blurred, blurred.flip(0))
    assert_close(blurred, blurred.T)
    ratio = math.exp(-1 / (2 * (17 / 8) ** 2))  # of a Gaussian, one pixel beside its middle
    assert float(blurred[8, 9] / blurred[8, 8]) == pytest.approx(ratio, rel=1e-2)  # up to the renormalized border
    shown = insertion_curve(MODEL, IMAGE, LEFT_FIRST, blank="blur").scores
    assert_close(shown[:, -1], torch.tensor([logistic(6)]))
    assert 0.5 < float(shown[0, 0]) < float(shown[0, -1])  # a blurred image still says something


def test_on_a_model_of_the_catalogue_nothing_is_left_changed():
    torch.manual_seed(4)
    model = vt.create_model("vit_nano_patch8_32", num_classes=3, image_size=(16, 24)).train()
    images = torch.randn(2, 3, 16, 24)
    maps = explain_map(model, images)
    found = deletion_curve(model, images, maps)
    assert found.scores.shape == (2, 7)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    probabilities = model.eval()(images).softmax(1).amax(1)
    assert_close(found.scores[:, 0], probabilities)


def test_what_does_not_fit():
    with pytest.raises((vt.VitrailError, TypeError), match="maps"):  # the shape hook, where it is on, is first
        deletion_curve(MODEL, IMAGE, torch.rand(2, 1, 2))
    with pytest.raises(vt.VitrailError, match="not finite"):
        deletion_curve(MODEL, IMAGE, torch.tensor([[[0.1, math.nan]]]))
    with pytest.raises(vt.VitrailError, match="steps must be from 1 to the number of cells, 2: got 3"):
        insertion_curve(MODEL, IMAGE, LEFT_FIRST, steps=3)
    with pytest.raises((vt.VitrailError, TypeError), match="blank"):
        insertion_curve(MODEL, IMAGE, LEFT_FIRST, blank="black")
