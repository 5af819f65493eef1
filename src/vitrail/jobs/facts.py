"""What all tasks tell in the same words: the model, its training, how many there are, what to do next, and the end of a run."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sized
from pathlib import Path
from typing import Any

from vitrail.files import write_whole
from vitrail.jobs.evaluate import METRICS, REPORT
from vitrail.jobs.options import TrainOptions
from vitrail.learn.training.progress_bar import ProgressBar, clock
from vitrail.learn.training.run_folder import CONFIG
from vitrail.learn.training.state import Progress
from vitrail.models.card import write_card
from vitrail.models.catalogue import count_parameters


def model_fact(options: TrainOptions, model: Any) -> str:
    return f"{options.model if options.weights is None else options.weights}, {count_parameters(model):,} parameters"


def training_fact(options: TrainOptions, progress: Progress) -> str:
    """Nothing where no epoch has ended."""
    if not progress.best:
        return ""
    best = f"best: epoch {progress.best['epoch']:.0f}"
    return f"{progress.epoch} epochs in {clock(progress.elapsed)} on {options.device}; {best}"


def count_splits(splits: Mapping[Any, Sized]) -> str:
    return ", ".join(f"{len(split):,} {name}" for name, split in splits.items())


def later_commands(folder: Path, *, verb: str = "train", config: Path | None = None) -> dict[str, str]:
    """What to do with a run at any time: what it does -> a line for the shell. `config` is its own unless said otherwise."""
    return {
        "Go on, if it was interrupted": f"vitrail {verb} --out {shlex.quote(str(folder))} --resume",
        "Repeat it": f"vitrail {verb} --config {shlex.quote(str(config or folder / CONFIG))}",
    }


def end_run(
    folder: Path, model: Any, bar: ProgressBar, *, told: Mapping[str, Any], kept: Mapping[str, Any], lines: Iterable[str]
) -> None:
    """The card of the best model (`told`), metrics.json (`kept`), which ends a run, and what there is to say of it; empty lines are not
    said."""
    write_card(folder / "best", model, dict(told))
    write_whole(folder / METRICS, json.dumps(dict(kept), indent=2) + "\n")
    for line in (*lines, f"report: {folder / REPORT}"):
        if line:
            bar.say(line)
