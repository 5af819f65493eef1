"""Learning from a teacher's answers  [Hinton+ 2015; Touvron+ 2021, DeiT].

b batch, k classes
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from vitrail.learn.losses.cross_entropy import cross_entropy

Reduction = Literal["mean", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Distillation:
    """How a teacher is listened to: its likeliest class, or its probabilities; what weight that has beside the labels."""

    kind: Literal["hard", "soft"]
    share: float
    temperature: float = 1.0  # of soft answers

    def mix(self, labels: Tensor, teacher: Tensor) -> Tensor:
        """(1 - λ) · the loss of the labels + λ · that of the teacher's answers  [Touvron+ 2021, eq. 2; λ = 1/2 is eq. 3]."""
        return (1.0 - self.share) * labels + self.share * teacher

    def loss(
        self, logits: Float[Tensor, "b k"], teacher: Float[Tensor, "b k"], *, reduction: Reduction = "mean"
    ) -> Float[Tensor, ""] | Float[Tensor, "b"]:
        """Of the student's logits against the teacher's, which take no gradient."""
        if self.kind == "hard":
            return hard_distillation(logits, teacher, reduction=reduction)
        return soft_distillation(logits, teacher, temperature=self.temperature, reduction=reduction)


# [Touvron+ 2021]: soft with λ = 0.1 and τ = 3, hard with half the weight. Their code's own defaults are λ = 0.5 and τ = 1.
PUBLISHED: Mapping[str, Distillation] = MappingProxyType(
    {
        "hard": Distillation(kind="hard", share=0.5),
        "soft": Distillation(kind="soft", share=0.1, temperature=3.0),
    }
)


def hard_distillation(
    logits: Float[Tensor, "b k"], teacher: Float[Tensor, "b k"], *, reduction: Reduction = "mean"
) -> Float[Tensor, ""] | Float[Tensor, "b"]:
    """CE(softmax(logits), arg max of the teacher): its decision taken for the label  [Touvron+ 2021, eq. 3].

    Label smoothing is for true labels alone, as published.
    """
    return cross_entropy(logits, teacher.detach().argmax(-1), reduction=reduction)


def soft_distillation(
    logits: Float[Tensor, "b k"], teacher: Float[Tensor, "b k"], *, temperature: float, reduction: Reduction = "mean"
) -> Float[Tensor, ""] | Float[Tensor, "b"]:
    """τ² Σ_k t_k (log t_k - log s_k), with t = softmax(teacher / τ) and s = softmax(logits / τ); the mean over the batch.

    The divergence of the student from the teacher, as Hinton has it and DeiT's code computes it, whatever order of its arguments
    [Touvron+ 2021, eq. 2] writes. That code also divides by k, which the equation does not.
    """
    teacher_log = (teacher.detach().float() / temperature).log_softmax(-1)
    said = (logits.float() / temperature).log_softmax(-1)
    each = temperature**2 * (teacher_log.exp() * (teacher_log - said)).sum(-1)
    return each.mean() if reduction == "mean" else each
