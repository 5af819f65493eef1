"""What the runner and a task hand each other, stage by stage: Opening, Opened, Resolved, Setup, Scored, Summary."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from vitrail.data.bad_files import BadFile, BadFiles
from vitrail.data.dataset import NO_COPIES, Copies
from vitrail.learn.training.objective import Evaluation
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.models.model import Model
from vitrail.tasks.options import CommonOptions
from vitrail.tasks.verb_options import EvalOptions

O = TypeVar("O", bound=CommonOptions)
D = TypeVar("D")  # a dataset
M = TypeVar("M", bound=Model)  # the models that it trains
X = TypeVar("X")  # what a task needs beside options, data and model: a teacher, a tokenizer, a palette
Log = Callable[[str], None]


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
    """How data is opened: by training, by a resumed run (`known_bad`, `known_copies`: what it found before) and by `eval` (`split` is False
    for other data than the run's own, which is taken as it is)."""

    source: str
    seed: int
    progress: ProgressBar
    known_bad: Sequence[BadFile] | None = None
    known_copies: Copies = NO_COPIES
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
    begins: str = ""  # a line about the weights of a new run: why these, or under which license
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


@dataclass(frozen=True)
class Baseline:
    """The headline's metric of someone who looks at no image: "always naming cat"."""

    score: float
    words: str


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What is said of a scored model, beside its metrics."""

    details: Mapping[str, str] = field(default_factory=dict)  # for the head of the report: "Images" -> "8x8, 1,257 train, ..."
    interval: tuple[float, float] | None = None  # 95 % of the headline; metrics.json has it
    certainty: str = ""  # the interval, or what else tells how sure the headline is, in words
    lines: Sequence[str] = ()  # printed after training and by `eval`
    baseline: Baseline | None = None
    constant: str = ""  # what alone was predicted, of all samples
    card: Mapping[str, Any] = field(default_factory=dict)  # facts for the model card
    record: Mapping[str, Any] = field(default_factory=dict)  # more keys of metrics.json, behind the metrics
