"""The words of a command line before they are parsed: `lr=1e-3` for `--lr 1e-3`, `--config FILE` written out, earlier spellings."""

import re
import typing
import warnings
from collections.abc import Collection
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from vitrail.cli.chosen import USES, default_task, find_task, options_class
from vitrail.errors import VitrailError, VitrailWarning, suggestion
from vitrail.run.bench_options import BenchOptions
from vitrail.run_files import read_table
from vitrail.tasks import registry
from vitrail.tasks.options import ENDS, owned_elsewhere, present_record, renamed_of, unknown_key

CASCADE_OPTIONS = registry.need_part(registry.DEFAULT, "cascade_options").CascadeOptions
OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(USES, ()),
    "cascade": tuple(field.name for field in fields(CASCADE_OPTIONS)),
    "export": ("format", "out", "image_size", "opset", "dynamic_size", "check", "data"),
    "check": ("fix", "out", "json", "workers", "seed", "task", "ignore_index"),
    "bench": tuple(field.name for field in fields(BenchOptions)),
    "runs": ("sort", "best", "json"),
    "studio": ("port", "host", "memory", "open"),
    "import": ("out", "image_size", "patch", "in_channels", "num_classes", "heads", "model", "revision"),
    "models": ("json", "pretrained"),
}  # of verbs whose options are those of every task
SWITCHES = frozenset({"json", "open", "pretrained"})  # of those verbs: options without a value
BESIDE = {**dict.fromkeys(USES, ()), "train": ("config",), "pretrain": ("config", "method")}
PER_TASK = tuple(USES)
TABLES = {"attention_option": "attention_options"}  # as each entry is written -> the option
ASSIGNMENT = re.compile(r"([A-Za-z][\w-]*)=(.*)", re.DOTALL)


class Known:
    """What is known of a command line before it is parsed: the options of its verb, of a task where it has its own.

    `task` is None where no task is named and help is asked for: then the options that all tasks share are shown."""

    def __init__(self, verb: str, words: list[str]) -> None:
        self.verb, self.kind, self.task = verb, None, None
        self.names: tuple[str, ...] = OPTIONS.get(verb, ())
        self.switches: Collection[str] = SWITCHES
        self.negated: Collection[str] = ()
        if verb in PER_TASK:
            asks = any(word in ("--help", "-h") for word in words)
            self.task = find_task(verb, words) or (None if asks else default_task(verb))
            kind = self.kind = options_class(verb, self.task)
            hints = typing.get_type_hints(kind)
            self.names = (*(field.name for field in fields(kind)), *BESIDE[verb])
            self.switches = {name for name, hint in hints.items() if hint is bool or bool in typing.get_args(hint)}
            self.negated = {
                name for name in self.switches if type(None) in typing.get_args(hints[name])
            }  # on, off or by default

    @property
    def renamed(self) -> dict[str, str]:
        return {} if self.kind is None else renamed_of(self.kind)

    @property
    def reads_text(self) -> bool:
        """Whether the words of a command may be any text, E=mc² too."""
        return self.task in registry.TASKS and registry.TASKS[self.task].reads_text

    def refuse(self, name: str, *, word: str | None = None) -> VitrailError:
        """Why there is no option of this name; `word`: as it was written, without dashes."""
        if self.verb == "pretrain" and name == "task":
            return VitrailError("--task: vitrail pretrain takes --method, and does not learn from labels")
        option = f"--{name.replace('_', '-')}"
        owned = owned_elsewhere(name, option, use=USES[self.verb]) if self.verb in USES else None
        if owned is not None:
            return VitrailError(owned)
        if word is not None:
            return VitrailError(f'unknown option "{word}" of {self.verb}{suggestion(name, self.names)}')
        dashed = [f"--{known.replace('_', '-')}" for known in self.names]
        return VitrailError(f'unknown option "{option}" of {self.verb}{suggestion(option, dashed)}')


def spell_words(words: list[str], known: Known | None = None) -> list[str]:
    """Plain `--option value` words under present names. Left alone: the value of an option, and words with = that name an existing file."""
    if not words or words[0] not in OPTIONS:
        return words
    verb, known = words[0], known or Known(words[0], words[1:])
    out = [verb]
    for before, word in pairwise(words):
        match = ASSIGNMENT.fullmatch(word)
        is_value = (
            before.startswith("--") and "=" not in before and plain_name(before) not in known.switches and before != "--help"
        )
        if word.startswith("--") and not is_value:
            out.append(present_word(word, known))
            continue
        if match is None or is_value or Path(word).exists():
            out.append(word)
            continue
        name = TABLES.get(plain_name(match[1]), plain_name(match[1]))
        name = known.renamed.get(name, name)
        if name not in known.names and known.reads_text:
            out.append(word)
            continue
        if name not in known.names:
            raise known.refuse(name, word=match[1])
        out += spell(name, match[2], known.switches, known.negated)
    return with_data(with_config(out, known), known) if verb in ("train", "pretrain") else out


def present_word(word: str, known: Known) -> str:
    """An option under its present name; whoever writes an earlier one reads a line about it."""
    key, equals, value = word.partition("=")
    name = plain_name(key)
    if name in known.names or name not in known.renamed:
        return word
    present = f"--{known.renamed[name].replace('_', '-')}"
    warnings.warn(VitrailWarning(f"{key} is now {present}"), stacklevel=2)
    return f"{present}{equals}{value}"


def spell(name: str, value: Any, switches: Collection[str], negated: Collection[str] = ()) -> list[str]:
    """An option and its value as the parser reads it; nothing for a value that means "not given". `negated`: switches that can be off."""
    flag = f"--{name.replace('_', '-')}"
    if value is None or value == []:
        return []
    if name in switches and str(value).lower() in ("true", "false"):
        if str(value).lower() == "true":
            return [flag]
        return [f"--no-{name.replace('_', '-')}"] if name in negated else []
    if isinstance(value, list):
        return [flag, *map(str, value)]
    if isinstance(value, dict):  # a small table
        return [f"{flag}={key}={one}" for key, one in value.items()]
    return [f"{flag}={value}"]


def plain_name(word: str) -> str:
    """image_size, of `--image-size` and `image-size` alike."""
    return word.removeprefix("--").replace("-", "_")


def given_options(words: list[str]) -> set[str]:
    """The names of the options that stand in `words`."""
    named = (plain_name(word.split("=")[0]) for word in words if word.startswith("--"))
    return {TABLES.get(name, name.removeprefix("no_")) for name in named}


def with_config(words: list[str], known: Known) -> list[str]:
    """The words with the options of a YAML file behind `--config` added, where the command line does not say otherwise."""
    at = next((i for i, word in enumerate(words) if word == "--config" or word.startswith("--config=")), None)
    if at is None:
        return words
    _, equals, name = words[at].partition("=")
    if not equals:
        if at + 1 == len(words):
            raise VitrailError("--config needs a file")
        name = words[at + 1]
    path, rest = Path(name).expanduser(), words[:at] + words[at + (1 if equals else 2) :]
    given = given_options(rest)
    if "config" in given:
        raise VitrailError("--config can be given once")
    found = read_table(path)
    if "minutes" in given and "epochs" not in given:
        found.pop("epochs", None)
    if "epochs" in given:
        found.pop("minutes", None)
    if found.get("minutes") is not None:
        found.pop("epochs", None)  # config.yaml of a timed run says both; the time is what was asked for
    assert known.kind is not None
    found = {str(name).replace("-", "_"): value for name, value in found.items() if name != ENDS}
    if known.verb == "pretrain" and "task" in found:  # which a command line calls --method
        method = found.pop("task")
        rest += [] if "method" in given else spell("method", method, known.switches)
    for name, value in present_record(known.kind, found, hint=False).items():
        if name not in known.names or name in BESIDE[known.verb]:
            raise VitrailError(f"--config {path}: {owned_elsewhere(name, name) or unknown_key(name, known.names)}")
        if name not in given:
            rest += spell(name, value, known.switches, known.negated)
    return rest


def with_data(words: list[str], known: Known) -> list[str]:
    """`--out DIR --resume` alone is enough: the run knows its data."""
    given = given_options(words)
    if "resume" not in given or "out" not in given or given & {"data", "help"} or "-h" in words:
        return words
    at = next(i for i, word in enumerate(words) if word == "--out" or word.startswith("--out="))
    out = words[at].partition("=")[2] or "".join(words[at + 1 : at + 2])
    path = Path(out).expanduser() / "config.yaml"
    if not path.is_file():
        raise VitrailError(f"--resume: {out} is no folder of a run, and --data is not given, which would begin one there")
    return words + spell("data", read_table(path).get("data"), known.switches)


TYPES = re.compile(r'(: unable to convert ".*" into )([\w\[\], |.]+)\.$')


def one_line(message: str) -> str:
    """An error message without line breaks and frames; the types that a value is not of, in words."""
    return TYPES.sub(lambda found: f"{found[1]}{type_in_words(found[2])}.", " ".join(message.split()))


def type_in_words(kind: str) -> str:
    """`int|Literal[auto]` -> "a whole number or auto"."""
    plain = {"int": "a whole number", "float": "a number"}
    parts = [
        plain.get(part, part)
        for part in re.sub(r"Literal\[(.*?)\]", lambda found: found[1].replace(", ", "|"), kind).split("|")
    ]
    return " or ".join(part for part in parts if part != "None")
