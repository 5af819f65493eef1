"""Which task a command line is about, before anything is parsed, and the parser's view of that task's options. No torch here."""

import typing
from collections.abc import Sequence
from dataclasses import MISSING, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from vitrail.errors import VitrailError, check_choice
from vitrail.run_files import read_table
from vitrail.tasks import registry
from vitrail.tasks.options import Block, CommonOptions, Range
from vitrail.tasks.verb_options import EvalOptions, ExplainOptions, PredictOptions

ALIASES = registry.list_aliases()  # verbs that are other names for `predict`
USES: dict[str, registry.Use] = {
    "train": "train", "pretrain": "train", "eval": "eval", "predict": "predict", "explain": "explain",
    **dict.fromkeys(ALIASES, "predict"),
}  # fmt: skip
SHARED: dict[registry.Use, type[Block]] = {
    "train": CommonOptions, "eval": EvalOptions, "predict": PredictOptions, "explain": ExplainOptions,
}  # fmt: skip


def value_of(words: Sequence[str], name: str) -> str | None:
    """Of `--name value`, `--name=value` or `name=value`."""
    for number, word in enumerate(words):
        key, equals, value = word.partition("=")
        if key.removeprefix("--").replace("-", "_") == name and (equals or word.startswith("--")):
            return value if equals else (words[number + 1] if number + 1 < len(words) else None)
    return None


def find_task(verb: str, words: Sequence[str]) -> str | None:
    """By --task or --method, by --config, by the run of --resume, or by RUN; None where a command line says nothing of it."""
    if verb == "train":
        return find_trained(words, option="task", default=registry.DEFAULT)
    if verb == "pretrain":
        method = find_trained(words, option="method", default=registry.DEFAULT_METHOD)
        return None if method is None else check_choice("method", method, list_methods())
    run = find_run(words)
    if run is None:
        return None
    task = task_of_run(run)
    if task is not None and verb in ALIASES and task not in ALIASES[verb]:
        raise VitrailError(refuse_alias(verb, run, task))
    return task or default_task(verb)


def default_task(verb: str) -> str:
    """Of a command line that says nothing of it."""
    if verb in ALIASES:
        return ALIASES[verb][0]
    return registry.DEFAULT_METHOD if verb == "pretrain" else registry.DEFAULT


def refuse_alias(verb: str, run: str, task: str) -> str:
    """What the run does, and the command that takes it."""
    entry, has_predictions = registry.TASKS[task], registry.has_part(task, "predict")
    other = entry.alias or ("predict" if has_predictions else "eval")
    tasks = " or ".join(ALIASES[verb])
    return f"{run} is of --task {task} ({entry.summary}), which vitrail {other} takes; vitrail {verb} takes --task {tasks}"


def find_run(words: Sequence[str]) -> str | None:
    """RUN, before it is known which words are values of options: a folder of a model, else the first word that stands behind no option."""
    plain = [(before, word) for before, word in zip(("", *words), words, strict=False) if not word.startswith("-")]
    for _, word in plain:
        folder = Path(word).expanduser()
        if any((folder / name).is_file() for name in ("config.yaml", "config.json", "best/config.json", "cascade.json")):
            return word
    return next((word for before, word in plain if not before.startswith("--") or "=" in before), None)


def find_trained(words: Sequence[str], *, option: str, default: str) -> str | None:
    """By its option, or by a config.yaml, in which `default` need not be named."""
    named = value_of(words, option)
    if named is not None:
        return named
    config, out = value_of(words, "config"), value_of(words, "out")
    path = None if config is None else Path(config).expanduser()
    if path is None and out is not None and any(word in ("--resume", "resume=true") for word in words):
        path = Path(out).expanduser() / "config.yaml"
    return str(read_table(path).get("task", default)) if path is not None and path.is_file() else None


def task_of_run(run: str) -> str | None:
    """Of a folder by its files; of what has to be downloaded first, by its architecture. None: there is no such run, which the verb says."""
    folder = Path(run).expanduser()
    if folder.is_dir():
        best = folder / "best"
        return registry.task_of(best if best.is_dir() and not (folder / "config.yaml").is_file() else folder)
    if folder.exists() or "/" not in run:
        return None
    from vitrail.models.folder import architecture_of  # torch, which such a run needs anyway

    try:
        architecture = architecture_of(run)
    except VitrailError:
        return None
    return None if architecture is None else registry.task_by_architecture(architecture)


def options_class(verb: str, task: str | None) -> type[Any]:
    """Those of the task; without one, what all tasks share."""
    use = USES[verb]
    return SHARED[use] if task is None else registry.options_of(registry.check_task(task), use)


def list_methods() -> tuple[str, ...]:
    """The tasks of `vitrail pretrain`."""
    return tuple(name for name, entry in registry.TASKS.items() if entry.verb == "pretrain")


def shown_class(kind: Any, without: tuple[str, ...] = ()) -> type[Any]:
    """The same fields for the parser, whose help says the range of each number."""
    hints = typing.get_type_hints(kind, include_extras=True)
    shown: list[Any] = []
    for one in fields(kind):
        if one.name in without:
            continue
        base, *metadata = typing.get_args(hints[one.name])
        base = tuple[str, ...] | None if is_table(base) else base  # words KEY=VALUE
        parameters = [rule for rule in metadata if isinstance(rule, Parameter)]
        ranges = [str(rule) for rule in metadata if isinstance(rule, Range)]
        (parameter,) = parameters
        if ranges:
            parameter = Parameter.combine(
                parameter, Parameter(help=f"{(parameter.help or '').removesuffix('.')} ({ranges[0]}).")
            )
        given: Any = {} if one.default is MISSING else {"default": one.default}
        shown.append((one.name, Annotated[base, parameter], field(**given)))
    made = make_dataclass(kind.__name__, shown, frozen=True, kw_only=True)
    made.__module__ = kind.__module__
    return typing.cast(type[Any], Parameter(name="*")(made))


def from_shown(kind: type[Any], shown: Any, **more: Any) -> Any:
    """The options that the parser's view stands for."""
    hints = typing.get_type_hints(kind)
    values = {one.name: getattr(shown, one.name) for one in fields(shown)}
    tables = {name: read_pairs(value, name) for name, value in values.items() if value and is_table(hints[name])}
    return kind(**values | tables, **more)


def is_table(hint: Any) -> bool:
    """Whether an option is a small table, written as KEY=VALUE and given once for each key."""
    return any(typing.get_origin(one) is dict for one in (hint, *typing.get_args(hint)))


def read_pairs(words: Sequence[str], name: str) -> dict[str, bool | int | float | str]:
    """{"features": 32, "causal": True}, of `features=32` and `causal=true`."""
    found: dict[str, bool | int | float | str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        option = f"--{name.removesuffix('s').replace('_', '-')}"
        if not (key and equals):
            raise VitrailError(f"{option} takes KEY=VALUE, got {word}")
        if key in found:
            raise VitrailError(f"{option} {key} is given twice")
        found[key.replace("-", "_")] = read_value(value)
    return found


def read_value(word: str) -> bool | int | float | str:
    """A switch, a number or a text."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def list_tasks(verb: str) -> str:
    """A line for each task of `vitrail train`, or for each method of `vitrail pretrain`."""
    option = "--method" if verb == "pretrain" else "--task"
    entries = {name: entry for name, entry in registry.TASKS.items() if verb == "train" or entry.verb == verb}
    lines = "\n".join(f"  {name:<12} {entry.summary}" for name, entry in entries.items())
    title = "Methods" if verb == "pretrain" else "Tasks"
    return f"{title}, each with options of its own (vitrail {verb} {option} NAME --help):\n\n{lines}\n"
