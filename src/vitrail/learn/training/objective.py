"""What the training loop asks for: an objective, with its model. Objectives satisfy it by shape; the loop knows nothing else about them."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from vitrail.run_files import Formatted


@runtime_checkable
class Evaluation(Protocol):
    """What a pass over a split gave: numbers by name, and whatever else the task keeps for its report. One that can be bad in a way that
    its score does not show also has a `warning`, a line that says so, or nothing: see `warning_of`. One whose score is a mean over the samples of
    the split has `per_sample`, an array of what each adds to it, in the split's order; one of classes has `collapsed`, whether it predicted a
    single class where there are several: see `best_epoch`."""

    @property
    def metrics(self) -> Mapping[str, float]: ...

    @property
    def error(self) -> float:
        """Standard error of the task's score: differences below it mean nothing."""


@runtime_checkable
class Objective(Protocol):
    """Model + loss + evaluation."""

    name: str
    score: str  # the key of the metric that chooses the best epoch

    @property
    def model(self) -> nn.Module: ...

    def loss(self, batch: Any) -> Tensor:
        """The scalar to minimize for one batch."""

    def evaluate(self, batches: Iterable[Any]) -> Evaluation:
        """Metrics over a whole split; "loss" and the task's score are among them."""


@runtime_checkable
class Weighted(Protocol):
    """A batch whose loss is no mean over its samples."""

    @property
    def weight(self) -> float:
        """How much it counts beside other batches, such as its real tokens."""


@runtime_checkable
class Following(Protocol):
    """An objective of which something follows the steps: a schedule of its own, or a teacher that is an average of the model."""

    def before_step(self, done: float) -> None:
        """`done`: the share of the run, in [0, 1]."""

    def after_step(self) -> None:
        """The weights have moved. Not called where a step was not taken."""


@runtime_checkable
class Redrawing(Protocol):
    """A module of a model with random numbers, which are a function of a seed and the step: the same in all processes."""

    def after_step(self, step: int) -> None:
        """`step` steps were taken. Not called where a step was not taken."""


@runtime_checkable
class Adding(Protocol):
    """A model, or a module of one, with a loss of its own, such as one for a balanced load."""

    def auxiliary_loss(self) -> Tensor:
        """Of the last forward pass, a scalar; asked once after each."""


@runtime_checkable
class Batches(Protocol):
    """Passes over a split that can begin at any batch: what exact resumption needs."""

    def __len__(self) -> int: ...

    def batches(self, epoch: int = 0, start: int = 0) -> Iterable[Any]: ...


@runtime_checkable
class Score(Formatted, Protocol):
    """How the loop reads and prints a number of an evaluation; `tasks.metric.Metric` is one."""

    @property
    def each_epoch(self) -> bool:
        """Whether it is printed after each epoch, beside the score."""

    @property
    def is_share(self) -> bool:
        """Whether 1 is the most that it can be."""

    def tick(self, value: float) -> str:
        """On an axis."""


def warning_of(evaluation: Evaluation) -> str:
    """What is to be said beside the score, or nothing."""
    return str(getattr(evaluation, "warning", ""))
