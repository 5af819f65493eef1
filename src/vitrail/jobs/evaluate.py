"""Scoring a trained model on a split, whatever the task (jobs/trades.py): `vitrail eval`, and what it shares with the end of training."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitrail.errors import VitrailError
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.stored import read_options
from vitrail.jobs.trades import find_trade
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.run_folder import CONFIG
from vitrail.models.folder import find, load
from vitrail.models.purpose import Purpose, purpose_of
from vitrail.records import from_record
from vitrail.run_files import score_words

METRICS, PREDICTIONS, REPORT = "metrics.json", "predictions.csv", "report.html"
HEADLINES = ("map", "accuracy", "bleu", "perplexity")  # the metric to end with, the first that there is

TASKS: Mapping[Purpose, str] = {"translate": "translate", "language": "language", "fill": "language"}  # what scores them


def headline(split: str, metrics: Mapping[str, float]) -> str:
    """The last line of training and of `eval`."""
    metric = next(name for name in HEADLINES if name in metrics)
    return score_words(split, metric, metrics[metric])


def evaluate(
    run: str | Path, *, data: str | Path | None = None, split: str = "test", batch: int = 64, workers: int | None = None,
    device: str = "auto", out: str | Path | None = None,
) -> dict[str, float]:  # fmt: skip
    """`vitrail eval` in Python: the metrics of a run or model folder on a split of its own data, or of other data."""
    given = {"data": None if data is None else str(data), "out": None if out is None else str(out)}
    record = {**given, "split": split, "batch": batch, "workers": "auto" if workers is None else workers, "device": device}
    return run_evaluation(str(run), from_record(EvalOptions, record, what="evaluate"))


def run_evaluation(run: str, options: EvalOptions, *, quiet: bool = False) -> dict[str, float]:
    if options.batch < 1 or (options.workers != "auto" and options.workers < 0):
        raise VitrailError(f"--batch must be at least 1 and --workers at least 0, got {options.batch} and {options.workers}")
    if not 0 <= options.bad_files <= 1:
        raise VitrailError(f"--bad-files must be a share from 0 to 1, got {options.bad_files}")
    model, trained = load(run), training_options(run)
    task = TASKS.get(purpose_of(model), "classify") if trained is None else trained.task
    return find_trade(task).evaluate(run, model, trained, options, ProgressBar(quiet=quiet))


def same_source(one: str, other: str) -> bool:
    return one == other or Path(one).expanduser().resolve() == Path(other).expanduser().resolve()


def training_options(run: str) -> TrainOptions | None:
    """What the run that a model comes from was asked to do, or None for a model folder by itself."""
    folder = find(run).resolve()
    path = folder.parent / CONFIG
    if folder.name not in ("best", "last") or not path.is_file():
        return None
    return read_options(path)


def read_metrics(folder: Path) -> dict[str, float] | None:
    """The test metrics of a finished run, or None."""
    try:
        found: dict[str, Any] = json.loads((folder / METRICS).read_text())
        return {name: float(value) for name, value in found.items() if name not in ("split", "interval", "signature")}
    except (OSError, ValueError, AttributeError, TypeError):
        return None
