"""Self-distillation and contrast by hand, and what tells a collapse."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from vitrail.learn.losses.contrast import contrast_loss
from vitrail.learn.losses.self_distillation import (
    entropies,
    move_center,
    self_distillation_loss,
    sharpen,
    warm_temperature,
)
from vitrail.learn.metrics.collapse import feature_spread, output_entropies, tell_collapse, tell_health
from vitrail.learn.optim.following import follow


def test_the_loss_of_a_tiny_case_by_hand():
    # Two prototypes, one image, three views of the student, two of the teacher.
    taught = torch.tensor([[[0.75, 0.25]], [[0.5, 0.5]]])
    student = torch.tensor([[[0.0, 0.0]], [[math.log(3), 0.0]], [[0.0, math.log(7)]]])
    logs = [[math.log(0.5)] * 2, [math.log(0.75), math.log(0.25)], [math.log(0.125), math.log(0.875)]]
    cross = [-(p[0] * q[0] + p[1] * q[1]) for p, q in (
        ((0.75, 0.25), logs[1]), ((0.75, 0.25), logs[2]), ((0.5, 0.5), logs[0]), ((0.5, 0.5), logs[2])
    )]  # fmt: skip
    assert self_distillation_loss(student, taught, temperature=1.0).item() == pytest.approx(sum(cross) / 4)
    assert self_distillation_loss(0.1 * student, taught, temperature=0.1).item() == pytest.approx(sum(cross) / 4)


def test_the_sum_over_pairs_is_the_plain_double_loop():
    student, taught = torch.randn(5, 3, 7), torch.randn(2, 3, 7).softmax(-1)
    pairs = [-(taught[u] * (student[v] / 0.3).log_softmax(-1)).sum(-1).mean() for u in range(2) for v in range(5) if u != v]
    assert_close(self_distillation_loss(student, taught, temperature=0.3), torch.stack(pairs).mean())


def test_the_center_of_a_constant_stream_converges_to_its_mean():
    center, mean = torch.zeros(3), torch.tensor([1.0, -2.0, 0.5])
    for step in range(60):
        center = move_center(center, mean, momentum=0.9)
        assert_close(center, (1 - 0.9 ** (step + 1)) * mean)
    assert (sharpen(mean[None], center, 0.04)[0] - 1 / 3).abs().max() < 0.05  # what all have is taken from it


def test_sharpening_is_a_softmax_of_what_is_centered():
    outputs, center = torch.tensor([[0.3, 0.1]]), torch.tensor([0.1, 0.1])
    assert sharpen(outputs, center, 0.1)[0, 0].item() == pytest.approx(1 / (1 + math.exp(-2)))


def test_the_temperature_warms_up():
    assert [warm_temperature(0.04, 0.07, done, warmup=0.3) for done in (0.0, 0.15, 0.3, 1.0)] == pytest.approx(
        [0.04, 0.055, 0.07, 0.07]
    )
    assert warm_temperature(0.04, 0.04, 0.0, warmup=0.0) == 0.04


def test_contrast_by_hand_and_symmetric():
    queries, keys = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    # Cosines: (1, 0.6) and (0, 0.8).
    tau = 0.2  # not 0.5, where the factor 2 tau of the loss would be 1
    first = -math.log(math.exp(1 / tau) / (math.exp(1 / tau) + math.exp(0.6 / tau)))
    second = -math.log(math.exp(0.8 / tau) / (math.exp(0 / tau) + math.exp(0.8 / tau)))
    own = torch.arange(2)
    assert contrast_loss(queries, keys, own, temperature=tau).item() == pytest.approx(2 * tau * (first + second) / 2)
    order = torch.tensor([1, 0])  # a query's key may stand anywhere
    assert_close(
        contrast_loss(queries, keys[order], order, temperature=tau), contrast_loss(queries, keys, own, temperature=tau)
    )
    assert_close(contrast_loss(7 * queries, keys, own, temperature=tau), contrast_loss(queries, keys, own, temperature=tau))


def test_momentum_of_one_leaves_the_teacher_and_of_zero_copies_it():
    teacher, student = nn.Linear(3, 5), nn.Linear(3, 5)
    before = [p.clone() for p in teacher.parameters()]
    follow(teacher, student, 1.0)
    assert all(torch.equal(p, old) for p, old in zip(teacher.parameters(), before, strict=True))
    follow(teacher, student, 0.75)
    for p, old, its in zip(teacher.parameters(), before, student.parameters(), strict=True):
        assert_close(p, 0.75 * old + 0.25 * its)
    follow(teacher, student, 0.0)
    assert all(torch.equal(p, its) for p, its in zip(teacher.parameters(), student.parameters(), strict=True))


def test_spread_is_one_for_even_directions_and_zero_for_one():
    torch.manual_seed(0)
    assert feature_spread(torch.randn(4000, 16)) == pytest.approx(1.0, abs=0.03)
    assert feature_spread(torch.randn(1, 16).expand(50, 16) * torch.rand(50, 1)) < 1e-6
    assert feature_spread(torch.randn(1, 16)) == 0.0


def measure(outputs: torch.Tensor) -> dict[str, float]:
    return {"spread": 0.8, **output_entropies(outputs.mean(0), entropies(outputs).mean().item())}


def test_entropies_know_both_kinds_of_collapse():
    one = F.one_hot(torch.zeros(64, dtype=torch.long), 8).double()
    even = torch.full((64, 8), 1 / 8, dtype=torch.float64)
    healthy = F.one_hot(torch.arange(64) % 8, 8).double()
    assert measure(healthy) == pytest.approx({"spread": 0.8, "entropy": 1.0, "single_entropy": 0.0, "information": 1.0})
    assert measure(one)["entropy"] == pytest.approx(0.0)
    assert measure(even)["single_entropy"] == pytest.approx(1.0)
    assert tell_collapse(measure(healthy)) is None
    assert tell_health(measure(healthy)).startswith("healthy: ")
    assert "a few prototypes have all images (entropy of the mean output 0.0 %" in tell_collapse(measure(one))
    assert "try a higher --teacher-temperature" in tell_collapse(measure(one))
    assert "spread evenly over the prototypes (entropy 100.0 %" in tell_collapse(measure(even))
    assert "try a lower --teacher-temperature" in tell_health(measure(even))


def test_features_that_point_one_way_are_reported():
    assert tell_collapse({"spread": 0.5}) is None
    assert "point nearly the same way (spread 0.010" in tell_collapse({"spread": 0.01})
    assert "not finite" in tell_collapse({"spread": math.nan})
