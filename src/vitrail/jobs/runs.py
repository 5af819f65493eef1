"""What runs there are and how they went, from their small files alone: no weights are loaded, and no torch."""

import csv
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from vitrail.errors import VitrailError
from vitrail.jobs.stored import read_table

T = TypeVar("T")
Sort = Literal["score", "time", "name"]
State = Literal["finished", "interrupted", "running?", "broken"]
TRACES = ("machine.yaml", "results.csv", "state", "last", "best")  # one of them beside config.yaml makes a folder a run
SCORES = ("map", "accuracy")  # what chooses the best epoch, the first that a run has
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # tensors of a model that are no parameters
SIGN_OF_LIFE = 300.0  # seconds: a run writes something every two minutes, or at the end of a validation
IN_TABLE = frozenset({"data", "model", "epochs", "minutes"})
NO_MATTER = frozenset({"workers", "cache", "cache_gb", "bad_files"})  # how a run works, not what comes out


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """One run. What its files do not say is None."""

    path: Path
    state: State
    changed: float  # seconds since 1970 of the last sign of life
    data: str | None = None
    model: str | None = None
    parameters: int | None = None
    epochs: int = 0
    planned: int | None = None  # epochs; None for a run with a time budget
    minutes: float | None = None  # spent
    metric: str | None = None  # what the scores are
    validation: float | None = None  # of the best epoch
    best_epoch: int | None = None
    test: float | None = None
    interval: tuple[float, float] | None = None  # 95 % of the test score
    problem: str | None = None  # of a broken run
    options: Mapping[str, Any] = field(default_factory=dict)  # config.yaml

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "path": str(self.path)}


def list_runs(folders: Sequence[Path], *, sort: Sort = "score", best: int | None = None) -> list[RunSummary]:
    """The runs at and below `folders`, sorted; `best` keeps so many of each data set.

    `score` is the best epoch's on the validation pictures: a test score reports a choice and never makes one. It sorts within
    a data set, since scores on different data say nothing about each other. `time` puts the newest first.
    """
    if best is not None and best < 1:
        raise VitrailError(f"--best must be at least 1, got {best}")
    for folder in folders:
        if not folder.is_dir():
            raise VitrailError(f"{folder}: no such folder")
    paths = dict.fromkeys(path for folder in folders for path in find_runs(folder))
    runs = sorted((read_run(path) for path in paths), key=_by_score)
    if best is not None:
        kept: dict[str | None, int] = {}
        some = list[RunSummary]()
        for run in runs:
            kept[run.data] = kept.get(run.data, 0) + 1
            if kept[run.data] <= best:
                some.append(run)
        runs = some
    if sort == "time":
        runs.sort(key=lambda run: -run.changed)
    elif sort == "name":
        runs.sort(key=lambda run: str(run.path))
    return runs


def _by_score(run: RunSummary) -> tuple[bool, str, float, str]:
    return run.data is None, run.data or "", math.inf if run.validation is None else -run.validation, str(run.path)


def find_runs(folder: Path) -> Iterable[Path]:
    """Run folders at and below `folder`, in the order of their names; nothing is looked for inside a run."""
    for here, below, files in os.walk(folder):
        if "config.yaml" in files and any(name in TRACES for name in (*below, *files)):
            below.clear()
            yield Path(here)
        below[:] = sorted(name for name in below if not name.startswith("."))


def read_run(path: Path) -> RunSummary:
    """What the files of a run say. One that is there and cannot be read makes the run a broken one, and is named."""
    problems = list[str]()

    def attempt(name: str, read: Callable[[Path], T], otherwise: T) -> T:
        if not (path / name).exists():
            return otherwise
        try:
            return read(path / name)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, csv.Error) as error:
            reason = str(error).removeprefix(f"{path / name}: ") if isinstance(error, VitrailError) else "not readable"
            problems.append(f"{name}: {reason}")
            return otherwise

    options: dict[Any, Any] = attempt("config.yaml", read_table, {})
    rows: list[dict[str, float]] = attempt("results.csv", read_rows, [])
    metrics: dict[str, Any] = attempt("metrics.json", read_object, {})
    checkpoint = newest_state(path / "state")
    progress: dict[str, Any] = {}
    if checkpoint is not None:
        progress = attempt(str(checkpoint.relative_to(path)), read_object, progress)
    weights = next((name for name in ("best/model.safetensors", "last/model.safetensors") if (path / name).is_file()), None)
    parameters = None if weights is None else attempt(weights, count_stored_parameters, None)

    best = progress.get("best")
    chosen: dict[str, Any] = best if isinstance(best, dict) else {}
    metric = score_name(metrics) or score_name(chosen)
    last = rows[-1] if rows else {}
    seconds = number(progress.get("elapsed", last.get("seconds")))
    planned = options.get("epochs") if options.get("minutes") is None else None
    changed = max((file.stat().st_mtime for file in _signs(path)), default=0.0)
    ended = bool(metrics) and bool(progress.get("finished", True))
    alive = time.time() - changed < SIGN_OF_LIFE
    state: State = "broken" if problems else "finished" if ended else "running?" if alive else "interrupted"
    return RunSummary(
        path=path,
        state=state,
        changed=changed,
        data=None if options.get("data") is None else str(options["data"]),
        model=None if options.get("model") is None else str(options["model"]),
        parameters=parameters,
        epochs=int(number(progress.get("epoch", last.get("epoch"))) or 0),
        planned=planned if isinstance(planned, int) else None,
        minutes=None if seconds is None else seconds / 60,
        metric=metric,
        validation=number(chosen.get(metric)) if metric else None,
        best_epoch=None if (epoch := number(chosen.get("epoch"))) is None else int(epoch),
        test=number(metrics.get(metric)) if metric else None,
        interval=pair(metrics.get("interval")),
        problem="; ".join(problems) or None,
        options=options,
    )


def read_object(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(path)
    return found


def read_rows(path: Path) -> list[dict[str, float]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]


def newest_state(folder: Path) -> Path | None:
    """The numbers of the newest whole checkpoint, as `learn.training.state` writes them."""
    found = sorted(folder.glob("step-*/state.json")) or sorted(folder.glob(".replaced/state.json"))
    return found[-1] if found else None


def count_stored_parameters(path: Path) -> int:
    """From the header of a safetensors file: eight bytes of its length, then JSON with the shape of every tensor."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            raise VitrailError(f"{path}: truncated")
        header = json.loads(file.read(length))
    shapes = [entry["shape"] for name, entry in header.items() if name != "__metadata__" and not name.endswith(STATISTICS)]
    return sum(math.prod(shape) for shape in shapes)


def score_name(metrics: Mapping[str, Any]) -> str | None:
    """The metric that a run is judged by."""
    others = (name for name, value in metrics.items() if name not in ("loss", "epoch") and number(value) is not None)
    return next((name for name in SCORES if name in metrics), None) or next(others, None)


def number(value: Any) -> float | None:
    """A finite number, or None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def pair(value: Any) -> tuple[float, float] | None:
    """Two finite numbers, or None."""
    found = [number(part) for part in value] if isinstance(value, list) else []
    return (found[0], found[1]) if len(found) == 2 and found[0] is not None and found[1] is not None else None


def _signs(path: Path) -> Iterable[Path]:
    """Files whose dates tell when a run last did something."""
    names = ("config.yaml", "results.csv", "metrics.jsonl", "metrics.json")
    return (path / name for name in names if (path / name).is_file())


def differing_options(runs: Sequence[RunSummary]) -> list[str]:
    """The options that not all of these runs share, beside those of the table. An older run may lack one: that is no difference."""
    names = dict.fromkeys(name for run in runs for name in run.options if name not in IN_TABLE | NO_MATTER)
    return [name for name in names if len({json.dumps(r.options[name], default=str) for r in runs if name in r.options}) > 1]


def summary_table(runs: Sequence[RunSummary]) -> tuple[list[str], list[list[str]]]:
    """Column names and a row a run, in words for people."""
    header = ["run", "data", "model", "size", "epochs", "val %", "test %", "interval", "min", "state"]
    return header, [
        [
            plain(run.path),
            plain(run.data),
            plain(run.model),
            "-" if run.parameters is None else f"{run.parameters / 1e6:.2f}M",
            str(run.epochs) if run.planned is None else f"{run.epochs}/{run.planned}",
            percent(run.validation) + ("" if run.metric in (None, "accuracy") else f" {run.metric}"),
            percent(run.test),
            "-" if run.interval is None else f"{percent(run.interval[0])}–{percent(run.interval[1])}",
            "-" if run.minutes is None else f"{run.minutes:.1f}",
            run.state,
        ]
        for run in runs
    ]


def options_table(runs: Sequence[RunSummary]) -> tuple[list[str], list[list[str]]] | None:
    """What was done differently: a column for each option that differs; None where nothing does."""
    names = differing_options(runs)
    if not names:
        return None
    return ["run", *names], [[plain(run.path), *(plain(run.options.get(name, "-")) for name in names)] for run in runs]


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}"


def plain(value: Any) -> str:
    """Text of any origin in one printable line."""
    text = "-" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def align(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The table in lines of text, columns two spaces apart."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)]
