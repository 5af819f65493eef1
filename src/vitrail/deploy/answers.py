"""A model's answers as plain tensors, whatever its own forward gives: what files and engines compute.

b batch, ch channels, q queries, k classes
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.models.purpose import purpose_of

Answers = Tensor | tuple[Tensor, ...]  # one tensor where there is but one


class LastAnswers(nn.Module):
    """What a detector says behind its last block; what it said before is for its training."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Float[Tensor, "b ch h w"]) -> tuple[Float[Tensor, "b q k"], Float[Tensor, "b q 4"]]:
        found = self.model(images)
        return found.logits[-1], found.boxes[-1]


def answering(model: Any) -> Any:
    """A module whose forward gives tensors: the model itself, but for a detector."""
    return LastAnswers(model).eval() if purpose_of(model) == "detect" else model


def one_or_all(tensors: Sequence[Tensor]) -> Answers:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def as_tuple(answers: Answers) -> tuple[Tensor, ...]:
    return (answers,) if isinstance(answers, Tensor) else answers
