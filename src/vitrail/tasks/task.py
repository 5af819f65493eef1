"""What a task brings; the runner (`run/`) does everything else, once for all tasks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from vitrail.data.bad_files import BadFile, BadFiles
from vitrail.errors import VitrailError
from vitrail.learn.training.objective import Batches, Evaluation, Objective
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.world import World
from vitrail.models.model import Model
from vitrail.models.parts import position_name, position_where
from vitrail.records import has_field
from vitrail.tasks.card import Card, plain_card
from vitrail.tasks.options import CommonOptions, spell
from vitrail.tasks.verb_options import EvalOptions

O = TypeVar("O", bound=CommonOptions)
D = TypeVar("D")  # a dataset
M = TypeVar("M", bound=Model)  # the models that it trains
X = TypeVar("X")  # what a task needs beside options, data and model: a teacher, a tokenizer, a palette
Log = Callable[[str], None]
PARTS = ("position", "position_where", "attention")  # of a model, chosen by name


@runtime_checkable
class Dataset(Protocol):
    """What the runner asks of opened data, whatever is in it."""

    @property
    def name(self) -> str: ...

    @property
    def notes(self) -> Sequence[str]: ...

    @property
    def splits(self) -> Mapping[Any, Any]:
        """train, val and, where there is one, test -> something with a length."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """How data is opened: by training, by a resumed run (`known_bad`: what it could not read before) and by `eval` (`split` is False for
    other data than the run's own, which is taken as it is)."""

    source: str
    seed: int
    progress: ProgressBar
    known_bad: Sequence[BadFile] | None = None
    split: bool = True
    image_size: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Opened(Generic[D]):
    """Data in splits, without what cannot be read."""

    data: D
    bad: BadFiles | None = None


@dataclass(frozen=True, kw_only=True)
class Resolved(Generic[O, D, X]):
    """Options without `auto`, the data to use, and what else the task needs."""

    options: O
    data: D
    extras: X
    bad: BadFiles | None = None


def ignore(line: str) -> None:
    """A log that nobody reads."""


@dataclass(frozen=True, kw_only=True)
class Setup(Resolved[O, D, X]):
    """All that a run is."""

    model: Any
    log: Log = ignore
    evaluation: EvalOptions | None = None  # what `vitrail eval` was given; None while training and after it
    stored: Any = None  # in `vitrail eval`: the options of the run before those were laid over them

    @property
    def name(self) -> str:
        """Of the data, by which the run's folder is called."""
        name: str = self.data.name  # type: ignore[attr-defined]
        return name


@dataclass(frozen=True, kw_only=True)
class Scored(Generic[D]):
    """An evaluation of a split, with what its report and its files are made of."""

    evaluation: Evaluation
    split: str
    data: D
    model: Any
    extras: Any = None  # what the task's own files and report need beside it
    more: Mapping[str, float] = field(default_factory=dict)  # metrics that were measured after the evaluation

    @property
    def metrics(self) -> dict[str, float]:
        return {**self.evaluation.metrics, **self.more}


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What is said of a scored model, beside its metrics."""

    details: Mapping[str, str] = field(default_factory=dict)  # for the head of the report: "Images" -> "8x8, 1,257 train, ..."
    interval: tuple[float, float] | None = None  # 95 % of the headline; metrics.json has it
    certainty: str = ""  # the interval, or what else tells how sure the headline is, in words
    lines: Sequence[str] = ()  # printed after training and by `eval`
    card: Mapping[str, Any] = field(default_factory=dict)  # facts for the model card
    record: Mapping[str, Any] = field(default_factory=dict)  # more keys of metrics.json, behind the metrics


class Task(Generic[O, D, X, M]):
    """Stateless: `TASK = Detect()` ends tasks/detect/task.py. The order in which the runner calls it keeps runs bit-identical."""

    unit: ClassVar[str] = "images"
    recipes: ClassVar[Mapping[str, Mapping[str, Any]]]  # rows: values of fields of Options

    # before the run

    def open(self, options: O, opening: Opening) -> Opened[D]:
        """Read, leave out what cannot be read, split. `options` are the run's, or `eval`'s laid over them."""
        raise NotImplementedError

    def load(self, options: O, log: Log) -> Model | None:
        """The model of --weights as this task can use it; called only with --weights."""
        raise NotImplementedError

    def resolve(self, options: O, opened: Opened[D], loaded: Any, resumed: Path | None) -> Resolved[O, D, X]:
        """No `auto` is left. `loaded` is what --weights brought, `resumed` the folder of a run that is continued."""
        raise NotImplementedError

    def build(self, resolved: Resolved[O, D, X], loaded: Any) -> M:
        """The model; the generator is seeded just before."""
        raise NotImplementedError

    def describe(self, setup: Setup[O, D, X]) -> Iterable[str]:
        """Lines before training."""
        raise NotImplementedError

    def store(self, setup: Setup[O, D, X], folder: Path) -> None:
        """Files that --resume needs: a tokenizer, a palette."""

    # the run

    def plan(self, setup: Setup[O, D, X]) -> Mapping[str, Any]:
        """Fields of the training plan that no option names."""
        return {}

    def rate_before_test(self, setup: Setup[O, D, X]) -> float:
        """The learning rate around which `--lr auto` searches."""
        return float(self.recipes[setup.options.recipe]["lr"])

    def objective(self, setup: Setup[O, D, X], *, device: str, world: World) -> Objective:
        raise NotImplementedError

    def loaders(self, setup: Setup[O, D, X], world: World) -> tuple[Batches, Batches]:
        """Training and validation batches: both at once, because they share one cache budget."""
        raise NotImplementedError

    # after it

    def calibrate(self, setup: Setup[O, D, X], *, device: str, world: World) -> bool:
        """With the best model, on validation, what is chosen after training; True: the model changed, save best/ again."""
        return False

    def score(self, setup: Setup[O, D, X], split: str, *, device: str, world: World) -> Scored[D]:
        raise NotImplementedError

    def after_training(self, setup: Setup[O, D, X], scored: Scored[D], folder: Path) -> Scored[D]:
        """In the first process only: more measurements, more files."""
        return scored

    def write_predictions(self, scored: Scored[D], folder: Path) -> None:
        """predictions.csv and the like."""

    def summarize(self, setup: Setup[O, D, X], scored: Scored[D]) -> Summary:
        return Summary()

    def card(self, model: M, facts: Mapping[str, Any]) -> Card:
        """What the card says of a model of this task, beside its training and its scores; `facts` as `Summary.card` has them."""
        return plain_card(model)

    # a trained model

    def match(self, data: D, model: M, options: O) -> D:
        """Other data, with its classes numbered as the model numbers them."""
        return data

    def stored(self, model: M) -> O:
        """Of a model folder without config.yaml: the options that its config implies."""
        raise NotImplementedError


def with_split(data: Any, name: str, split: Any) -> Any:
    """The data with another split in the place of one."""
    return replace(data, splits={**data.splits, name: split})


def count_splits(splits: Mapping[Any, Any]) -> str:
    """1,257 train, 180 val, 360 test."""
    return ", ".join(f"{len(split):,} {name}" for name, split in splits.items())


def describe_recipe(options: Any, *, batch: str | None = None) -> str:
    """How a model will learn, in a line; `batch`: what a step sees, in words."""
    length = f"{options.epochs} epochs" if options.minutes is None else f"{options.minutes:g} minutes"
    batch = batch or f"batch {options.batch_size}"
    return f"recipe {options.recipe}: {length}, {batch}, lr {options.lr:g} on {options.device}"


def choose_parts(options: Any, model: str, config: Any) -> dict[str, Any]:
    """The parts of a new model that can be chosen by name: the user's, or those of the config of this name."""
    choices: dict[str, Any] = {}
    for name in PARTS:
        asked = getattr(options, name) not in (None, "auto")
        choices[name] = getattr(options, name) if asked else getattr(config, name, getattr(options, name))
        if asked and not has_field(config, name):
            raise VitrailError(f"{spell(name)} {getattr(options, name)}: {model} has no {name} to choose")
    if choices["position"]:
        choices["position"] = position_name(choices["position"])
        if has_field(config, "position_where"):  # else a run that is resumed would ask for what it cannot have
            choices["position_where"] = position_where(choices["position"], choices["position_where"])
    return choices


def model_name(options: Any) -> str:
    """What a model is called before training."""
    return options.model if options.weights is None else f"weights of {options.weights}"
