"""What a run's small files say of it: no weights are loaded, and no torch."""

import csv
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import yaml

from vitrail.errors import VitrailError

T = TypeVar("T")
State = Literal["finished", "interrupted", "running?", "broken"]
TRACES = ("machine.yaml", "results.csv", "state", "last", "best")  # one of them beside config.yaml makes a folder a run
STATISTICS = ("running_mean", "running_var", "num_batches_tracked", "palette")  # tensors of a model that are no parameters
SIGN_OF_LIFE = 300.0  # seconds: a run writes something every two minutes, or at the end of a validation


class Formatted(Protocol):
    """A number that has a name and is written in one way."""

    @property
    def key(self) -> str: ...

    @property
    def short(self) -> str: ...

    @property
    def higher_is_better(self) -> bool: ...

    def format(self, value: float) -> str: ...


@runtime_checkable
class Figure(Formatted, Protocol):
    """How a score is shown; `tasks.metric.Metric` is one."""

    def headline(self, split: str, value: float) -> str: ...

    def to_json(self) -> dict[str, Any]: ...


FiguresOf = Callable[[str], Sequence[Figure]]  # of a task, the first that was measured is its score


def no_figures(task: str) -> Sequence[Figure]:
    """Where nobody knows the tasks."""
    return ()


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
    metric: str | None = None  # key of what the scores are
    figure: Figure | None = None  # how they are shown
    validation: float | None = None  # of the best epoch
    best_epoch: int | None = None
    test: float | None = None
    interval: tuple[float, float] | None = None  # 95 % of the test score
    problem: str | None = None  # of a broken run
    options: Mapping[str, Any] = field(default_factory=dict)  # config.yaml

    def to_json(self) -> dict[str, Any]:
        found = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "figure"}
        return {**found, "path": str(self.path), "options": dict(self.options)}

    def describe_score(self) -> str | None:
        """The test score, or the best on validation so far: `test accuracy 98.61 %`."""
        for split, value in (("test", self.test), ("validation", self.validation)):
            if value is not None and self.metric is not None:
                return f"{split} {self.metric} {value:.4f}" if self.figure is None else self.figure.headline(split, value)
        return None


def find_runs(folder: Path) -> Iterable[Path]:
    """Run folders at and below `folder`, in the order of their names; nothing is looked for inside a run."""
    for here, below, files in os.walk(folder):
        if "config.yaml" in files and any(name in TRACES for name in (*below, *files)):
            below.clear()
            yield Path(here)
        below[:] = sorted(name for name in below if not name.startswith("."))


def read_run(path: Path, figures_of: FiguresOf = no_figures) -> RunSummary:
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

    known = figures_of(str(options.get("task", "")))
    best = progress.get("best")
    chosen: dict[str, Any] = best if isinstance(best, dict) else best_of(rows, known)
    metric = score_name(metrics, known) or score_name(chosen, known)
    last = rows[-1] if rows else {}
    seconds = number(progress.get("elapsed", last.get("seconds")))
    planned = options.get("epochs") if options.get("minutes") is None else None
    changed = last_sign(path)
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
        figure=next((figure for figure in known if figure.key == metric), None),
        validation=number(chosen.get(metric)) if metric else None,
        best_epoch=None if (epoch := number(chosen.get("epoch"))) is None else int(epoch),
        test=number(metrics.get(metric)) if metric and metrics.get("split", "test") == "test" else None,
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


def score_name(metrics: Mapping[str, Any], known: Sequence[Figure]) -> str | None:
    """The metric that a run is judged by."""
    measured = [name for name, value in metrics.items() if name not in ("loss", "epoch") and number(value) is not None]
    return next((figure.key for figure in known if figure.key in measured), None) or next(iter(measured), None)


def number(value: Any) -> float | None:
    """A finite number, or None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def pair(value: Any) -> tuple[float, float] | None:
    """Two finite numbers, or None."""
    found = [number(part) for part in value] if isinstance(value, list) else []
    return (found[0], found[1]) if len(found) == 2 and found[0] is not None and found[1] is not None else None


def last_sign(path: Path) -> float:
    """Seconds since 1970 of the last thing a run did."""
    times = []
    for name in ("config.yaml", "results.csv", "metrics.jsonl", "metrics.json"):
        try:
            times.append((path / name).stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def best_of(rows: Sequence[Mapping[str, float]], known: Sequence[Figure]) -> dict[str, float]:
    """Score and number of the best epoch, from the rows of results.csv: what a run says of itself before its first checkpoint."""
    for figure in known:
        scored = [
            (value, row["epoch"])
            for row in rows
            if (value := number(row.get(f"val_{figure.key}"))) is not None and "epoch" in row
        ]
        if scored:
            sign = 1 if figure.higher_is_better else -1
            value, epoch = max(scored, key=lambda pair: sign * pair[0])
            return {figure.key: value, "epoch": epoch}
    return {}


def read_table(path: Path) -> dict[Any, Any]:
    """A YAML file of options, whatever they are."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise VitrailError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise VitrailError(f"{path}: cannot be read as YAML ({error})") from None
    if not isinstance(found, dict):
        raise VitrailError(f"{path}: expected a table of options, got {type(found).__name__}")
    return found
