"""What tells one way of learning without labels from another: all else is `jobs.pretraining`'s."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.recipes import Recipe
from vitrail.learn.training.objective import Batches, Objective
from vitrail.learn.training.world import World
from vitrail.report.page import Markup


@runtime_checkable
class Method(Protocol):
    """A method of `vitrail pretrain`, without state of its own. One under which the pull on the weights grows has a `decay_growth`: by
    what factor, until the end."""

    name: str  # as --method has it
    does: str  # what is learned, in words: "each hidden patch from the others"
    recipes: Mapping[str, Recipe]
    nothing: Mapping[str, Any]  # options that it does not have, with the value beside `auto` that says nothing

    def settle(self, options: TrainOptions, config: Any) -> dict[str, Any]:
        """What `auto` means for its own options, for a backbone of this config; and a VitrailError for what cannot be."""

    def build(self, backbone: Any, options: TrainOptions) -> Any:
        """The model to train around a backbone, whose weights stay as they are."""

    def make_task(self, model: Any, data: DataSet, options: TrainOptions, *, device: str, world: World) -> Objective: ...

    def make_loaders(
        self, model: Any, data: DataSet, options: TrainOptions, bad: BadFiles, world: World
    ) -> tuple[Batches, Batches]:
        """What is learned from, and what is validated on."""

    def describe(self, model: Any, options: TrainOptions) -> Iterable[str]:
        """Lines that tell what is particular about this run, before it begins."""

    def show(self, model: Any, data: DataSet, options: TrainOptions) -> Iterable[Markup]:
        """Sections of the report: what the trained model does, in pictures."""


@runtime_checkable
class Recounting(Protocol):
    """A method that has more to tell of a run's course than its losses."""

    def show_history(self, rows: Sequence[Mapping[str, float | int]], metrics: Mapping[str, float]) -> Iterable[Markup]:
        """Sections of the report: `rows` of results.csv, and what was measured in the end."""


@runtime_checkable
class Choosing(Protocol):
    """A method for which `--model auto` is not the backbone that any method can have."""

    def choose_model(self, size: tuple[int, int], pictures: int) -> str:
        """For pictures of this size, so many."""


@runtime_checkable
class Standalone(Choosing, Protocol):
    """A method whose model is no classifier's backbone with something around it, but a kind of its own."""

    architecture: str  # what --model and --weights must be

    def create(self, options: TrainOptions) -> Any:
        """A new model, whose preprocessing is not measured yet. `build` then gets it in the place of a backbone."""

    def later(self, run: str) -> dict[str, str]:
        """What to do with a run that is finished: what it does -> a line for the shell."""
