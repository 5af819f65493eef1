"""Training runs and their curves, from the small files that a run writes while it trains."""

from pathlib import Path
from typing import Any

from vitrail.learn.training.run_folder import read_results
from vitrail.run_files import FiguresOf, find_runs, last_sign, number, read_run

STATES = {"running?": "training", "finished": "finished", "interrupted": "stopped", "broken": "stopped"}
COLUMNS = ("train_loss", "val_loss", "lr", "seconds")  # of every task; a run has its score beside them
Row = dict[str, int | float | None]


def find_run_folders(folder: Path) -> list[Path]:
    """Runs at and below `folder`, the one that did something last first."""
    return sorted(find_runs(folder), key=last_sign, reverse=True)


def state_of(run: Path) -> str:
    return STATES[read_run(run).state]


def summarize(run: Path, *, name: str, identity: str, figures_of: FiguresOf) -> dict[str, Any]:
    """What the page shows of a run; `metric` says how its score is called and written."""
    found = read_run(run, figures_of)
    return {
        "id": identity,
        "name": name,
        "state": STATES[found.state],
        "data": None if found.data is None else Path(found.data).name or found.data,
        "model": found.model,
        "epochs": found.epochs,
        "of": found.planned,
        "score": found.describe_score(),
        "metric": None if found.figure is None else found.figure.to_json(),
        "minutes": found.minutes,
        "updated": int(found.changed),  # whole, since other numbers are rounded to five digits
    }


def describe_score(run: Path, figures_of: FiguresOf) -> str | None:
    """`test accuracy 98.61 %`, or None where it was not tested yet."""
    found = read_run(run, figures_of)
    return found.describe_score() if found.test is not None else None


def curve(run: Path, *, since: int = 0, figures_of: FiguresOf) -> list[Row]:
    """A row per epoch, of those behind `since`, with the losses and the run's score; a loss that was not finite is None."""
    columns = (*COLUMNS, f"val_{read_run(run, figures_of).metric}")
    rows = [row for row in read_results(run) if number(row.get("epoch")) is not None and row["epoch"] > since]
    return [
        {"epoch": int(row["epoch"])} | {name: number(value) for name, value in row.items() if name in columns} for row in rows
    ]
