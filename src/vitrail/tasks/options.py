"""Options: their values and ranges, what every task accepts, and one check for all. No torch here.

A task's class is `class Options(<blocks>, CommonOptions)` (tasks/blocks.py, tasks/*_options.py) with its own fields; the range, the choices and the help of an option stand
beside its field. `auto` is replaced when the options are resolved, and config.yaml says by what.
"""

import math
import typing
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from cyclopts import CoercionError, Group, Parameter, Token, convert

from vitrail.errors import VitrailError, VitrailWarning, suggestion
from vitrail.records import OMITTED, from_record, to_record

T = TypeVar("T")
Auto = Literal["auto"]
RecipeName = Literal["auto", "tiny", "small", "medium", "large", "finetune", "plain"]
NOT_STORED = ("out", "resume", "finish", "offline")  # where and how a run is started, not what it is
ENDS = "ends"  # a key of config.yaml that is no option: where the run was to end before

TASK = Group("Options of this task", sort_key=1)
IMAGES = Group("Images", sort_key=2)
TEXT = Group("Text", sort_key=3)
RECIPE = Group("Recipe", help="Each is the recipe's unless given.", sort_key=4)
AUGMENTATION = Group("Augmentation", help="Each is the recipe's unless given.", sort_key=5)


# ------------------------------------------------------------------------------------------------------------------------- values


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that an option takes."""

    ge: float | int = -math.inf
    gt: float | int = -math.inf
    le: float | int = math.inf
    lt: float | int = math.inf

    def check(self, option: str, number: float | int) -> None:
        if (self.ge, self.lt) == (0, 1):
            if not 0 <= number < 1:
                raise VitrailError(f"{option} must be in [0, 1), got {number}")
        elif (self.gt, self.lt) == (0, 1):
            if not 0 < number < 1:
                raise VitrailError(f"{option} must be between 0 and 1, got {number:g}")
        elif number < self.ge:
            raise VitrailError(f"{option} must be at least {self.ge:g}, got {number}")
        elif number <= self.gt:
            raise VitrailError(f"{option} must be above {self.gt:g}, got {number}")
        elif number > self.le:
            raise VitrailError(f"{option} must be at most {self.le if self.le > 1e9 else format(self.le, 'g')}, got {number}")
        elif number >= self.lt:
            raise VitrailError(f"{option} must be below {self.lt:g}, got {number}")

    def __str__(self) -> str:
        """As help shows it."""
        low = f"{'[' if self.ge > -math.inf else '('}{max(self.ge, self.gt):g}"
        high = f"{min(self.le, self.lt):g}{']' if self.le < math.inf else ')'}"
        if max(self.ge, self.gt) == -math.inf:
            return f"at most {self.le:g}" if self.le < math.inf else f"below {self.lt:g}"
        if min(self.le, self.lt) > 1e9:
            return f"at least {self.ge:g}" if self.ge > -math.inf else f"above {self.gt:g}"
        return f"in {low}, {high}"


@dataclass(frozen=True, slots=True)
class Choices:
    """The numbers that an option takes, where they are few."""

    words: Mapping[int, str]  # number -> what it means

    def check(self, option: str, number: float | int) -> None:
        if number not in self.words:
            choices = " or ".join(f"{number} ({word})" for number, word in self.words.items())
            raise VitrailError(f"{option} must be {choices}, got {number}")


SHARE = Range(ge=0, lt=1)
COUNT = Range(ge=1)
SEED = Range(ge=0, le=2**63 - 1)  # torch's generators take no more
CHANNELS = Choices({1: "gray", 3: "color"})
HOW_TO_LEARN = Parameter(help="How to learn; auto: by the amount of data, finetune with --weights.")


def whole(kind: Any, tokens: Sequence[Token]) -> Any:
    """A converter for whole numbers: cyclopts alone would round 1.5 to 2."""
    for token in tokens:
        if "." in token.value:
            raise CoercionError(token=token, target_type=int)
    return convert(kind, tokens)


def integer(help: str, **more: Any) -> Parameter:
    """A whole number."""
    return Parameter(converter=whole, help=help, **more)


def several(help: str, **more: Any) -> Parameter:
    """One or more whole numbers."""
    return Parameter(converter=whole, consume_multiple=True, negative="", help=help, **more)


def switch(help: str, **more: Any) -> Parameter:
    """On if it is given."""
    return Parameter(negative="", help=help, **more)


def spell(name: str) -> str:
    """An option as people type it."""
    return f"--{name.replace('_', '-')}"


def absolute(source: str) -> str:
    """An existing path as it is called from any folder; names of built-in datasets and hub ids stay as they are."""
    from vitrail.data.opening import BUILT_IN

    path = Path(source).expanduser()
    return str(path.resolve()) if source not in BUILT_IN and path.exists() else source


def as_size(size: Sequence[int] | None) -> tuple[int, int] | None:
    """(h, w), of N or H W."""
    return None if size is None else (size[0], size[-1])


# ------------------------------------------------------------------------------------------------------------------ every task has


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some options with their rules. A class is made of blocks; each hands `check` and `normalize` on."""

    renamed: ClassVar[Mapping[str, str]] = {}  # earlier key -> present key; those of all blocks count
    retired: ClassVar[Mapping[str, Any]] = {}  # key of older config.yaml -> the value that says nothing
    paths: ClassVar[tuple[str, ...]] = ()  # options that may name a file; those of all blocks count

    def check(self) -> None:
        """Rules between fields: a VitrailError for what cannot be."""

    def normalize(self) -> Any:
        """The same wishes in one form each, so that they can be stored, and compared with stored ones."""
        return self


def has_option(options: Any, name: str) -> bool:
    """Whether the task of these options has this one."""
    return any(field.name == name for field in fields(options))


@dataclass(frozen=True, kw_only=True)
class CommonOptions(Block):
    """What every task accepts."""

    paths: ClassVar[tuple[str, ...]] = ("data", "weights")
    of_weights: ClassVar[tuple[str, ...]] = (
        "model", "position", "position_where", "attention", "attention_options", "image_size", "in_channels",
    )  # fmt: skip
    # options that cannot be given beside --weights, which bring their own

    data: Annotated[
        str, Parameter(help="A folder, a list or another file (see the docs), or a built-in dataset: digits, shapes.")
    ]
    task: Annotated[str, Parameter(help="What to learn: see the list below.")] = "classify"
    model: Annotated[str, Parameter(help="A name from `vitrail models`; auto: by the size and number of the data.")] = "auto"
    weights: Annotated[
        str | None,
        Parameter(
            help="Start from weights: a run, a model folder, .safetensors of another library, a hub id, or a name from "
            "`vitrail models --pretrained`."
        ),
    ] = None
    weights_sha256: Annotated[
        str | None, Parameter(help="The SHA-256 that the files of --weights must have; a run writes down the one it found.")
    ] = field(default=None, metadata=OMITTED)
    offline: Annotated[bool, switch("Ask no server: weights come from the local cache or from the package.")] = False
    epochs: Annotated[int | Auto, COUNT, integer("Passes over the training data.")] = "auto"
    minutes: Annotated[
        float | None, Range(gt=0), Parameter(help="A time budget instead of epochs; the schedule fits itself to it.")
    ] = None
    patience: Annotated[int | None, COUNT, integer("Stop after so many epochs without a higher validation score.")] = field(
        default=None, metadata=OMITTED
    )
    lr: Annotated[
        float | Auto | None,
        Range(gt=0),
        Parameter(help="Peak learning rate; auto: found by a range test; by default the recipe's."),
    ] = None
    recipe: Annotated[RecipeName, HOW_TO_LEARN] = "auto"
    seed: Annotated[int, SEED, integer("Decides every random number of the run.")] = 0
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"
    precision: Annotated[
        Literal["auto", "fp32", "bf16"],
        Parameter(help="Arithmetic of the forward pass; auto: bf16 for photographs where the processor is made for it."),
    ] = "auto"
    accumulate: Annotated[
        int, COUNT, integer("Cut each batch into so many parts, to need less memory; the step is the same.")
    ] = 1
    checkpointing: Annotated[
        bool, switch("Compute blocks twice instead of storing their activations: less memory, a third slower.")
    ] = False
    compile: Annotated[bool, switch("Compile the model first.")] = False
    tensorboard: Annotated[bool, switch("Write event files for TensorBoard too (extra: logs).")] = False
    out: Annotated[str | None, Parameter(help="The run's folder; by default runs/<task>/<data>, numbered.")] = None
    resume: Annotated[bool, switch("Continue the run in --out, bit for bit; to another end with --epochs or --minutes.")] = (
        False
    )
    finish: Annotated[bool, switch("With --resume: train no more, score the best epoch and write the report.")] = False

    def check(self) -> None:
        super().check()
        if self.minutes is not None and self.epochs != "auto":
            raise VitrailError("--minutes and --epochs are two ways to say how long: give one of them")
        if self.finish and not self.resume:
            raise VitrailError("--finish ends a run that was stopped: give --resume and its folder, --out")
        if self.weights is not None:
            for name in self.of_weights:
                if getattr(self, name, None) not in (None, "auto"):
                    raise VitrailError(f"--weights brings its own model: {spell(name)} cannot be given beside it")
        elif self.weights_sha256 is not None and not getattr(self, "pretrained", None):
            raise VitrailError(f"--weights-sha256 {self.weights_sha256} is about --weights: give it too")

    def normalize(self) -> Any:
        from vitrail.models.pretrained import resolve_source

        found = super().normalize()
        if found.weights:
            found = replace(found, weights=resolve_source(found.weights))
        named = {name: getattr(found, name) for kind in type(self).__mro__ for name in vars(kind).get("paths", ())}
        return replace(found, **{name: absolute(value) for name, value in named.items() if value})


# -------------------------------------------------------------------------------------------------------------- one check for all


def check(options: Any) -> None:
    """Each number within the range beside its field, then the rules between fields: for command line, Python and config.yaml alike."""
    hints = typing.get_type_hints(type(options), include_extras=True)
    for one in fields(options):
        value, option = getattr(options, one.name), spell(one.name)
        if value == "":
            raise VitrailError(f"{option} is empty")
        rules = [rule for rule in getattr(hints[one.name], "__metadata__", ()) if isinstance(rule, Range | Choices)]
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, str | bool) or not isinstance(number, int | float):
                continue
            if not math.isfinite(number):
                raise VitrailError(f"{option} must be a finite number, got {number}")
            for rule in rules:
                rule.check(option, number)
    options.check()


def renamed_of(kind: type[Any]) -> dict[str, str]:
    """Earlier key -> present key, of all blocks of a class."""
    return {old: new for base in reversed(kind.__mro__) for old, new in vars(base).get("renamed", {}).items()}


def retired_of(kind: type[Any]) -> dict[str, Any]:
    """Key that a class has no more -> the value that says nothing, of all its blocks."""
    return {old: value for base in reversed(kind.__mro__) for old, value in vars(base).get("retired", {}).items()}


def present_record(kind: type[Any], record: Mapping[str, Any], *, hint: bool) -> dict[str, Any]:
    """A record under present keys. With `hint` whoever wrote an earlier one reads a line about it."""
    renamed, retired, found = renamed_of(kind), retired_of(kind), dict[str, Any]()
    known = {field.name for field in fields(kind)}
    for name, value in record.items():
        key = renamed.get(name, name) if name not in known else name
        if name not in known and name in retired and value in ("auto", retired[name]):
            continue
        if key != name and hint:
            warnings.warn(VitrailWarning(f"{spell(name)} is now {spell(key)}"), stacklevel=4)
        if key in found:
            raise VitrailError(f"{spell(name)} and {spell(key)} are the same option: give one of them")
        found[key] = value
    return found


def read_record(kind: type[T], record: Mapping[str, Any], *, what: str, use: str = "train", hint: bool = False) -> T:
    """Options from a table, such as an older config.yaml: `what` names it in errors. An option of another task is refused with the names
    of the tasks that have it."""
    found = present_record(kind, record, hint=hint)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for name in found:
        if name not in known:
            raise VitrailError(f"{what}: {owned_elsewhere(str(name), str(name), use=use) or unknown_key(str(name), known)}")
    return from_record(kind, found, what=what)


def owned_elsewhere(name: str, word: str, *, use: str = "train") -> str | None:
    """Why an option, written as `word`, is refused: it is of other tasks. None where no task has it."""
    from vitrail.tasks.registry import owners_of

    owners = owners_of(name, use)  # type: ignore[arg-type]
    return f"{word} is an option of --task {' and '.join(', '.join(owners).rsplit(', ', 1))} only" if owners else None


def unknown_key(word: str, known: Sequence[str]) -> str:
    """Why the key of a table is refused: nobody has it."""
    return f'unknown key "{word}"{suggestion(word, known)}'


def to_store(options: Any) -> dict[str, Any]:
    """What config.yaml says."""
    return {name: value for name, value in to_record(options).items() if name not in NOT_STORED}


def lay_over(options: T, given: Any) -> T:
    """The options of a run with those of a verb laid over them: where both have a field and the verb says something."""
    own = {field.name for field in fields(options)}  # type: ignore[arg-type]
    values = {
        f.name: getattr(given, f.name) for f in fields(given) if f.name in own and f.name not in ("out", "device", "data")
    }
    return replace(options, **{name: value for name, value in values.items() if value not in (None, "auto")})  # type: ignore[type-var]


def from_recipe(
    recipe: Mapping[str, Any], options: Any, *, without: Sequence[str] = ("lr", "batch_size", "batch_tokens")
) -> dict[str, Any]:
    """What a recipe says of the options that are `auto`."""
    return {name: value for name, value in recipe.items() if name not in without and getattr(options, name) == "auto"}
