"""Learning from a teacher's answers: hard and soft, by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitrail.learn.losses.distillation import PUBLISHED, Distillation, hard_distillation, soft_distillation

STUDENT = torch.tensor([[1.0, -0.5, 0.3], [0.2, 0.1, 2.0]])
TEACHER = torch.tensor([[0.0, 3.0, 1.0], [-1.0, 0.5, 0.4]])


def test_hard_is_cross_entropy_with_the_teachers_arg_max():
    assert_close(hard_distillation(STUDENT, TEACHER), F.cross_entropy(STUDENT, torch.tensor([1, 1])))


def test_soft_by_hand():
    heat, total = 3.0, 0.0
    for student, teacher in zip(STUDENT.tolist(), TEACHER.tolist(), strict=True):
        said, reported = ([math.exp(x / heat) for x in row] for row in (student, teacher))
        said, reported = [x / sum(said) for x in said], [x / sum(reported) for x in reported]
        total += sum(t * math.log(t / s) for s, t in zip(said, reported, strict=True))
    assert soft_distillation(STUDENT, TEACHER, temperature=heat).item() == pytest.approx(heat**2 * total / 2, rel=1e-5)
    assert soft_distillation(STUDENT, STUDENT + 5.0, temperature=heat).item() == pytest.approx(0.0, abs=1e-5)


def test_the_gradient_of_soft_answers_is_their_difference():
    """d/dz of τ² KL(t || s) is τ (s - t) / b: with τ² it does not vanish as the temperature rises  [Hinton+ 2015, section 2]."""
    logits = STUDENT.clone().requires_grad_()
    [gradient] = torch.autograd.grad(soft_distillation(logits, TEACHER, temperature=4.0), logits)
    assert_close(gradient, 4.0 * ((STUDENT / 4).softmax(-1) - (TEACHER / 4).softmax(-1)) / 2)


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_a_loss_for_each_image_and_none_for_the_teacher(kind):
    teacher = TEACHER.clone().requires_grad_()
    student = STUDENT.clone().requires_grad_()
    each = PUBLISHED[kind].loss(student, teacher, reduction="none")
    assert each.shape == (2,)
    assert_close(each.mean(), PUBLISHED[kind].loss(STUDENT, TEACHER))
    each.sum().backward()
    assert teacher.grad is None
    assert student.grad.abs().sum() > 0


def test_shares_as_published():
    assert PUBLISHED["soft"] == Distillation(kind="soft", share=0.1, temperature=3.0)
    assert PUBLISHED["hard"].mix(torch.tensor(2.0), torch.tensor(4.0)) == 3.0
    assert PUBLISHED["soft"].mix(torch.tensor(2.0), torch.tensor(4.0)).item() == pytest.approx(2.2)
