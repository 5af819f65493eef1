"""What runs there are and how they went, in tables."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from vitrail.errors import VitrailError
from vitrail.run_files import RunSummary, find_runs, read_run
from vitrail.tasks import registry
from vitrail.tasks.metric import Metric

Sort = Literal["score", "time", "name"]
IN_TABLE = frozenset({"data", "model", "epochs", "minutes"})
DEFAULT_METRIC = "accuracy"  # what a score is that has no name in the table
NO_MATTER = frozenset({"workers", "cache", "cache_gb", "bad_files"})  # how a run works, not what comes out


def list_runs(folders: Sequence[Path], *, sort: Sort = "score", best: int | None = None) -> list[RunSummary]:
    """The runs at and below `folders`, sorted; `best` keeps so many of each dataset.

    `score` is the best epoch's on the validation images: a test score reports a choice and never makes one. It sorts within
    a dataset, since scores on different data say nothing about each other. `time` puts the newest first.
    """
    if best is not None and best < 1:
        raise VitrailError(f"--best must be at least 1, got {best}")
    for folder in folders:
        if not folder.is_dir():
            raise VitrailError(f"{folder}: no such folder")
    paths = dict.fromkeys(path for folder in folders for path in find_runs(folder))
    runs = sorted((read_run(path, figures_of) for path in paths), key=_by_score)
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


def figures_of(task: str) -> Sequence[Metric]:
    """The metrics of a task; none of a name that is no task."""
    task = task or registry.DEFAULT  # which a run of the first version does not say
    return registry.metrics_of(task) if task in registry.TASKS else ()


def _by_score(run: RunSummary) -> tuple[bool, str, float, str]:
    sign = 1 if run.figure is not None and not run.figure.higher_is_better else -1
    return run.data is None, run.data or "", math.inf if run.validation is None else sign * run.validation, str(run.path)


def differing_options(runs: Sequence[RunSummary]) -> list[str]:
    """The options that not all of these runs share, beside those of the table. An older run may lack one: that is no difference."""
    names = dict.fromkeys(name for run in runs for name in run.options if name not in IN_TABLE | NO_MATTER)
    return [name for name in names if len({json.dumps(r.options[name], default=str) for r in runs if name in r.options}) > 1]


def summary_table(runs: Sequence[RunSummary]) -> tuple[list[str], list[list[str]]]:
    """Column names and one row per run, in words for people."""
    header = ["run", "data", "model", "size", "epochs", "val", "test", "interval", "min", "state"]
    return header, [
        [
            plain(run.path),
            plain(run.data),
            plain(run.model),
            "-" if run.parameters is None else f"{run.parameters / 1e6:.2f}M",
            str(run.epochs) if run.planned is None else f"{run.epochs}/{run.planned}",
            show_score(run, run.validation, name=True),
            show_score(run, run.test),
            "-" if run.interval is None else f"{show_score(run, run.interval[0])}–{show_score(run, run.interval[1])}",
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


def show_score(run: RunSummary, value: float | None, *, name: bool = False) -> str:
    """As its metric is shown; with its name, if that is not plain from the unit."""
    if value is None:
        return "-"
    if run.figure is None:
        return f"{value:.4f} {run.metric or ''}".strip()
    return run.figure.format(value) + (f" {run.figure.short}" if name and run.metric != DEFAULT_METRIC else "")


def plain(value: Any) -> str:
    """Text of any origin in one printable line."""
    text = "-" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def align(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The table in lines of text, columns two spaces apart."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)]
