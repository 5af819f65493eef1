"""What a task brings; the runner (`run/`) does everything else, once for all tasks."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic

from vitrail.data.findings import plural
from vitrail.errors import VitrailError
from vitrail.learn.training.objective import Batches, Objective
from vitrail.learn.training.world import World
from vitrail.models.catalogue import ARCHITECTURES
from vitrail.models.folder import load
from vitrail.models.model import Model
from vitrail.models.parts import position_name, position_where
from vitrail.records import has_field
from vitrail.tasks.card import Card, plain_card
from vitrail.tasks.options import has_option, spell
from vitrail.tasks.stages import D, Log, M, O, Opened, Opening, Resolved, Scored, Setup, Summary, X

PARTS = ("position", "position_where", "attention", "attention_options")  # of a model, chosen by name


def load_that_takes(what: str, weights: Any, *, cannot: str) -> Model:
    """The model of --weights, refused where it does not take `what`; `cannot` says what it lacks then."""
    loaded = load(str(weights))
    if ARCHITECTURES[loaded.architecture].takes != what:
        raise VitrailError(f"--weights {weights}: a model of the kind {loaded.architecture} {cannot}")
    return loaded


class Task(Generic[O, D, X, M]):
    """Stateless: `TASK = Detect()` ends tasks/detect/task.py. The order in which the runner calls it keeps runs bit-identical."""

    unit: ClassVar[str] = "images"
    recipes: ClassVar[Mapping[str, Mapping[str, Any]]]  # rows: values of fields of Options

    # before the run

    def open(self, options: O, opening: Opening) -> Opened[D]:
        """Read, leave out what cannot be read, split. `options` are the run's, or `eval`'s laid over them."""
        raise NotImplementedError

    def find_weights(self, options: O, opened: Opened[D], log: Log) -> O:
        """The options with the weights to start from where nobody has named any: found, or none. Before anything else is resolved."""
        return options

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
    length = name_count(options.epochs, "epoch") if options.minutes is None else name_count(options.minutes, "minute")
    batch = batch or f"batch {options.batch_size}"
    return f"recipe: {options.recipe}: {length}, {batch}, lr {options.lr:g} on {options.device}"


def name_count(count: float | int, unit: str) -> str:
    """1 epoch, 0.5 minutes"""
    return f"{count:g} {plural(count, unit)}"


def choose_parts(options: Any, model: str, config: Any) -> dict[str, Any]:
    """The parts of a new model that can be chosen by name: the user's, or those of the config of this name."""
    choices: dict[str, Any] = {}
    for name in (name for name in PARTS if has_option(options, name)):
        asked = getattr(options, name) not in (None, "auto")
        choices[name] = getattr(options, name) if asked else getattr(config, name, getattr(options, name))
        if asked and not has_field(config, name):
            raise VitrailError(f"{spell(name)} {getattr(options, name)}: {model} has no {name} to choose")
    choices["attention_options"] = choices["attention_options"] or None
    if choices.get("position"):
        choices["position"] = position_name(choices["position"])
        if has_field(config, "position_where"):  # else a run that is resumed would ask for what it cannot have
            choices["position_where"] = position_where(choices["position"], choices["position_where"])
    return choices


def chosen_parts(options: Any, config: Any) -> dict[str, Any]:
    """Of the options, the parts that a model of this config has and that were chosen, as fields of the config."""
    named = (name for name in PARTS if hasattr(config, name) and has_option(options, name))
    return {name: getattr(options, name) for name in named if getattr(options, name) is not None}


def model_name(options: Any) -> str:
    """What a model is called before training."""
    return options.model if options.weights is None else f"weights of {options.weights}"
