"""Training runs and their curves, from the small files that a run writes while it trains."""

import json
import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from vitrail.learn.training.run_folder import CONFIG as CONFIG_YAML
from vitrail.learn.training.run_folder import RESULTS, read_results

METRICS = "metrics.json"
TRACES = ("machine.yaml", RESULTS, "state", "last", "best")  # one of them beside config.yaml makes a folder a run
SIGN_OF_LIFE = 300.0  # seconds: a run writes something every two minutes, or at the end of a validation
COLUMNS = ("train_loss", "val_loss", "val_accuracy", "val_map", "lr", "seconds")
Row = dict[str, int | float | None]


def find_run_folders(folder: Path) -> list[Path]:
    """Runs at and below `folder`, the one that did something last first; nothing is looked for inside a run."""
    found = []
    for here, below, files in os.walk(folder):
        if CONFIG_YAML in files and any(name in TRACES for name in (*below, *files)):
            below.clear()
            found.append(Path(here))
        below[:] = sorted(name for name in below if not name.startswith("."))
    return sorted(found, key=last_sign, reverse=True)


def last_sign(run: Path) -> float:
    """Seconds since 1970 of the last thing a run did."""
    times = []
    for name in (CONFIG_YAML, RESULTS, "metrics.jsonl", METRICS):
        try:
            times.append((run / name).stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def state_of(run: Path) -> str:
    """finished: its test score stands there; training: it wrote something lately; else stopped."""
    if (run / METRICS).is_file():
        return "finished"
    return "training" if time.time() - last_sign(run) < SIGN_OF_LIFE else "stopped"


def summarize(run: Path, *, name: str, identity: str) -> dict[str, Any]:
    options, rows = read_options(run), curve(run)
    planned = options.get("epochs") if options.get("minutes") is None else None
    last = rows[-1] if rows else {}
    seconds = last.get("seconds")
    return {
        "id": identity,
        "name": name,
        "state": state_of(run),
        "data": data_name(options.get("data")),
        "model": str(options.get("model") or "") or None,
        "epochs": int(last.get("epoch") or 0),
        "of": planned if isinstance(planned, int) else None,
        "score": describe_score(run) or describe_validation(rows),
        "minutes": None if seconds is None else seconds / 60,
        "updated": int(last_sign(run)),  # whole, since other numbers are rounded to five digits
    }


def curve(run: Path, *, since: int = 0) -> list[Row]:
    """A row an epoch, of those behind `since`; a loss that was not finite is None."""
    rows = [row for row in read_results(run) if finite(row.get("epoch")) is not None and row["epoch"] > since]
    return [{"epoch": int(row["epoch"])} | {name: finite(row[name]) for name in COLUMNS if name in row} for row in rows]


def finite(value: Any) -> float | None:
    """A finite number, or None."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(f"{value:.5g}") if good else None


def read_options(run: Path) -> dict[str, Any]:
    """config.yaml, or nothing where it cannot be read."""
    try:
        found = yaml.safe_load((run / CONFIG_YAML).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def data_name(source: Any) -> str | None:
    """The last part of what may be a path."""
    return Path(source).name or source if isinstance(source, str) else None


def describe_score(run: Path) -> str | None:
    """`test accuracy 98.61 %`, from metrics.json; None where there is none yet."""
    try:
        found = json.loads((run / METRICS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return _words("test", found.items()) if isinstance(found, dict) else None


def describe_validation(rows: list[Row]) -> str | None:
    """The best validation score so far."""
    for name in ("val_map", "val_accuracy"):
        values = [value for row in rows if (value := row.get(name)) is not None]
        if values:
            return _words("validation", [(name.removeprefix("val_"), max(values))])
    return None


def _words(split: str, metrics: Iterable[tuple[str, Any]]) -> str | None:
    known = dict(metrics)
    for name, words in (("map", "mAP"), ("accuracy", "accuracy")):
        value = finite(known.get(name))
        if value is not None:
            return f"{split} {words} {100 * value:.2f} %"
    return None
