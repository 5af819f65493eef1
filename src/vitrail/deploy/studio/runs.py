"""Training runs and their curves, from the small files that a run writes while it trains."""

from pathlib import Path
from typing import Any

from vitrail.learn.training.run_folder import read_results
from vitrail.run_files import RunSummary, find_runs, last_sign, number, read_run, score_words

STATES = {"running?": "training", "finished": "finished", "interrupted": "stopped", "broken": "stopped"}
COLUMNS = (
    "train_loss",
    "val_loss",
    "val_accuracy",
    "val_map",
    "val_ap50",
    "val_miou",
    "val_dice",
    "val_bleu",
    "val_psnr",
    "val_likelihood",
    "val_explained",
    "lr",
    "seconds",
)
Row = dict[str, int | float | None]


def find_run_folders(folder: Path) -> list[Path]:
    """Runs at and below `folder`, the one that did something last first."""
    return sorted(find_runs(folder), key=last_sign, reverse=True)


def state_of(run: Path) -> str:
    return STATES[read_run(run).state]


def summarize(run: Path, *, name: str, identity: str) -> dict[str, Any]:
    found = read_run(run)
    return {
        "id": identity,
        "name": name,
        "state": STATES[found.state],
        "data": None if found.data is None else Path(found.data).name or found.data,
        "model": found.model,
        "epochs": found.epochs,
        "of": found.planned,
        "score": describe(found),
        "minutes": found.minutes,
        "updated": int(found.changed),  # whole, since other numbers are rounded to five digits
    }


def describe_score(run: Path) -> str | None:
    """`test accuracy 98.61 %`, or None where it was not tested yet."""
    found = read_run(run)
    return describe(found) if found.test is not None else None


def describe(found: RunSummary) -> str | None:
    """The test score, or the best on validation so far."""
    for split, value in (("test", found.test), ("validation", found.validation)):
        if value is not None and found.metric is not None:
            return score_words(split, found.metric, value)
    return None


def curve(run: Path, *, since: int = 0) -> list[Row]:
    """A row an epoch, of those behind `since`; a loss that was not finite is None."""
    rows = [row for row in read_results(run) if number(row.get("epoch")) is not None and row["epoch"] > since]
    return [{"epoch": int(row["epoch"])} | {name: number(row[name]) for name in COLUMNS if name in row} for row in rows]
