"""What goes into an exported program and what comes out, by name, and what the numbers mean. Each task's pipeline tells it of its models."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from vitrail.models.model import Model

Outputs = Tensor | tuple[Tensor, ...]  # one tensor where there is only one


class Interface(NamedTuple):
    """`module`: its forward takes one tensor and gives plain tensors, whatever the model's own gives: what files and engines compute.
    `outputs`: each by its name with its axes and its meaning, in the order in which they come."""

    module: Any
    outputs: Mapping[str, str]
    input: str = "images"

    @property
    def plural(self) -> str:
        """What is given to it, in a sentence."""
        return self.input


def plain_interface(model: Model) -> Interface:
    """Of a model whose forward gives one tensor already."""
    return Interface(model, {"output": ""})


def one_or_all(tensors: Sequence[Tensor]) -> Outputs:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def as_tuple(outputs: Outputs) -> tuple[Tensor, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else outputs
