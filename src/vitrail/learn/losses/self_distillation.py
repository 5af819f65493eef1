"""Agreement of a student with its teacher on prototypes, over views of the same images.

v views of the student, u views of the teacher, b batch, k prototypes
"""

import torch
from jaxtyping import Float
from torch import Tensor


def sharpen(outputs: Float[Tensor, "*some k"], center: Float[Tensor, "k"], temperature: float) -> Float[Tensor, "*some k"]:
    """P_t = softmax((g_t - c) / tau_t)  [Caron+ 2021, section 3.1]: centered against one prototype that has it all, sharpened against
    all that have the same."""
    return ((outputs.float() - center) / temperature).softmax(-1)


def self_distillation_loss(
    student: Float[Tensor, "v b k"], taught: Float[Tensor, "u b k"], *, temperature: float
) -> Float[Tensor, ""]:
    """Mean of H(P_t(x), P_s(x')) over images and pairs of views x != x'  [Caron+ 2021, eq. 3].

    `taught` are the teacher's probabilities of the first u views of the student. The sum over pairs is a sum over the teacher's views
    of sums over the student's, less those of the same view: one product, not v u of them.
    """
    logs = (student.float() / temperature).log_softmax(-1)
    views, same = len(student), len(taught)
    every = (taught.sum(0) * logs.sum(0)).sum(-1)  # b
    own = (taught * logs[:same]).sum(-1).sum(0)  # b
    return -(every - own).mean() / (views * same - same)


def move_center(center: Float[Tensor, "k"], mean: Float[Tensor, "k"], *, momentum: float) -> Float[Tensor, "k"]:
    """c <- m c + (1 - m) mean of the teacher's outputs  [Caron+ 2021, eq. 4]."""
    return momentum * center + (1 - momentum) * mean


def entropies(probabilities: Float[Tensor, "b k"]) -> Float[Tensor, "b"]:
    """In nats."""
    return -torch.special.xlogy(probabilities, probabilities).sum(-1)


def warm_temperature(begin: float, end: float, done: float, *, warmup: float) -> float:
    """The teacher's, at a share `done` of the run: from `begin` straight to `end` over `warmup`, then constant."""
    return end if done >= warmup else begin + (end - begin) * done / warmup
