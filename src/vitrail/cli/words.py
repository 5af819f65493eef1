"""The words of a command line before they are parsed: `lr=1e-3` for `--lr 1e-3`, and `--config FILE` spelled out."""

import re
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from vitrail.errors import VitrailError, suggestion
from vitrail.jobs.bench_options import BenchOptions
from vitrail.jobs.cascade_options import CascadeOptions
from vitrail.jobs.options import CompleteOptions, EvalOptions, ExplainOptions, RestoreOptions, TrainOptions
from vitrail.run_files import read_table

OPTIONS: dict[str, tuple[str, ...]] = {
    "train": (*(field.name for field in fields(TrainOptions)), "config"),
    "pretrain": (*(field.name for field in fields(TrainOptions)), "method", "config"),
    "eval": tuple(field.name for field in fields(EvalOptions)),
    "predict": ("json", "top_k", "engine", "merge", "threshold", "out"),
    "cascade": tuple(field.name for field in fields(CascadeOptions)),
    "translate": ("beams", "batch", "device", "json"),
    "caption": ("beams", "json", "out"),
    "restore": tuple(field.name for field in fields(RestoreOptions)),
    "explain": tuple(field.name for field in fields(ExplainOptions)),
    "export": ("format", "out", "image_size", "opset", "dynamic_size", "check", "data"),
    "complete": tuple(field.name for field in fields(CompleteOptions)),
    "check": ("fix", "out", "json", "workers", "seed", "task", "ignore_index"),
    "bench": tuple(field.name for field in fields(BenchOptions)),
    "runs": ("sort", "best", "json"),
    "studio": ("port", "host", "memory", "open"),
    "import": ("out", "image_size", "patch", "in_channels", "num_classes", "heads", "model", "revision"),
    "models": ("json",),
}
SWITCHES = frozenset(
    {
        "bytes",
        "checkpointing",
        "compile",
        "flip",
        "flip_test",
        "focal",
        "json",
        "lower",
        "masked",
        "negatives",
        "open",
        "pack",
        "plain_pixels",
        "resume",
        "scalp",
        "shard",
        "tensorboard",
        "turns",
    }
)  # options without a value
SENTENCES = frozenset({"complete", "translate"})  # verbs whose words may be any text, E=mc² too
ASSIGNMENT = re.compile(r"([A-Za-z][\w-]*)=(.*)", re.DOTALL)


def spell_words(words: list[str]) -> list[str]:
    """Plain `--option value` words. Left alone: the value of an option, and words with = that name an existing file."""
    if not words or words[0] not in OPTIONS:
        return words
    verb, known = words[0], OPTIONS[words[0]]
    out = [verb]
    for before, word in pairwise(words):
        match = ASSIGNMENT.fullmatch(word)
        is_value = before.startswith("--") and plain_name(before) in set(known) - SWITCHES
        if match is None or is_value or Path(word).exists():
            out.append(word)
            continue
        name = plain_name(match[1])
        if name not in known and verb in SENTENCES:
            out.append(word)
            continue
        if name not in known:
            raise VitrailError(f'unknown option "{match[1]}" of {verb}{suggestion(name, known)}')
        out += spell(name, match[2])
    return with_data(with_config(out)) if verb in ("train", "pretrain") else out


def spell(name: str, value: Any) -> list[str]:
    """An option and its value as the parser reads it; nothing for a value that means "not given"."""
    flag = f"--{name.replace('_', '-')}"
    if value is None or value == []:
        return []
    if name in SWITCHES and str(value).lower() in ("true", "false"):
        if str(value).lower() == "true":
            return [flag]
        return ["--no-flip"] if name == "flip" else []  # the only switch that can be said to be off
    if isinstance(value, list):
        return [flag, *map(str, value)]
    return [f"{flag}={value}"]


def plain_name(word: str) -> str:
    """image_size, of `--image-size` and `image-size` alike."""
    return word.removeprefix("--").replace("-", "_")


def given_options(words: list[str]) -> set[str]:
    """The names of the options that stand in `words`."""
    named = (plain_name(word.split("=")[0]) for word in words if word.startswith("--"))
    return {name.removeprefix("no_") for name in named}


def with_config(words: list[str]) -> list[str]:
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
    for name, value in found.items():
        option = str(name).replace("-", "_")
        if option not in OPTIONS["train"] or option == "config":
            raise VitrailError(f'--config {path}: unknown key "{name}"{suggestion(option, OPTIONS["train"])}')
        if option not in given:
            rest += spell(option, value)
    return rest


def with_data(words: list[str]) -> list[str]:
    """`--out DIR --resume` alone is enough: the run knows its data."""
    given = given_options(words)
    if "resume" not in given or "out" not in given or "data" in given:
        return words
    at = next(i for i, word in enumerate(words) if word == "--out" or word.startswith("--out="))
    out = words[at].partition("=")[2] or "".join(words[at + 1 : at + 2])
    path = Path(out).expanduser() / "config.yaml"
    return words + spell("data", read_table(path).get("data")) if path.is_file() else words


def one_line(message: str) -> str:
    """An error message without line breaks and frames."""
    return " ".join(message.split())
