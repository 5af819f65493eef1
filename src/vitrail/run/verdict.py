"""What a score means, in one sentence: all rules stand here.

A run is judged by its rows of results.csv and by the score of the images that were read last. The first rule that holds speaks:

1. constant      every image gets the same prediction
2. guessing      the interval of the score reaches down to what is had without looking at an image
3. improving     in the last quarter of the epochs the validation score rose by more than its noise
4. overfitting   in the last third the validation loss rose while the training loss fell, and it ends well above its lowest value
5. few images    the interval is wider than 5 points to either side
6. fine
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vitrail.learn.training.state import Progress
from vitrail.tasks import registry
from vitrail.tasks.metric import Metric
from vitrail.tasks.stages import Baseline, Scored, Summary

Kind = Literal["constant", "guessing", "improving", "overfitting", "few images", "fine"]
LAST_QUARTER, LAST_THIRD = 1 / 4, 1 / 3
FEWEST = 4  # epochs of which a trend is read, where there are so many
SURE = 2.0  # standard errors that a trend is beyond
LEAST_RISE = 0.005  # of a score: half a point is not worth another run
LEAST_LOSS = 0.02  # of the lowest validation loss
WIDE = 0.05  # points to either side of a score


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of a run. `validated`: images that each validation score is of; 0 where it learned from these too."""

    rows: Sequence[Mapping[str, float | int]]
    metric: Metric
    value: float  # the score of the images that were read last
    split: str
    images: int
    validated: int
    interval: tuple[float, float] | None = None
    baseline: Baseline | None = None
    constant: str = ""  # the only prediction that was made
    best: int = 0  # the epoch of best/
    longer: str = ""  # the command that continues


@dataclass(frozen=True)
class Verdict:
    kind: Kind
    sentence: str
    command: str = ""  # that continues

    def __str__(self) -> str:
        return f"{self.sentence}: {self.command}" if self.command else self.sentence


def judge(found: Evidence) -> Verdict:
    """The first rule that holds."""
    metric, (low, high) = found.metric, found.interval or (found.value, found.value)
    if found.constant:
        return Verdict("constant", f"the model says {found.constant} of all {found.images:,} {found.split} images: it learned "
                       "nothing from them; try a smaller --lr, more epochs, or other --weights")  # fmt: skip
    if found.baseline is not None and low <= found.baseline.score:
        reach = f"the interval {metric.format(low)} to {metric.format(high)} reaches" if found.interval else "the score reaches"
        return Verdict("guessing", f"no better than guessing: {found.baseline.words} gives {metric.format(found.baseline.score)}, and "
                       f"{reach} down to that; try more images, more epochs or other --weights")  # fmt: skip
    if found.validated and (rise := find_rise(found)) is not None:
        points, since = rise
        text = f"still improving: {metric.short} on validation rose by {points} in the last {since} epochs; more of them would help"
        return Verdict("improving", text, found.longer)
    if found.validated and (since_epoch := find_overfitting(found.rows)) is not None:
        kept = f"; best/ is of epoch {found.best}" if found.best else ""
        return Verdict("overfitting", f"overfitting: since epoch {since_epoch} the validation loss rises while the training loss falls{kept}; "
                       "more images or fewer epochs would help")  # fmt: skip
    if found.interval is not None and metric.is_share and (high - low) / 2 > WIDE:
        return Verdict("few images", f"few {found.split} images: with {found.images:,} the score may lie anywhere from {metric.format(low)} to "
                       f"{metric.format(high)}; more of them narrow that")  # fmt: skip
    beyond = "" if found.baseline is None else f", and {found.baseline.words} gives {metric.format(found.baseline.score)}"
    trend = "validation no longer improves" if len(found.rows) >= FEWEST else "too few epochs to see a trend"
    if not found.validated:
        trend = "no images were left to see a trend by"
    return Verdict("fine", f"fine: {trend}{beyond}")


def weigh(
    task: str, options: Any, scored: Scored[Any], summary: Summary, progress: Progress, *, folder: Path, validated: int
) -> Verdict | None:
    """The verdict on a run that has ended; None where no score was measured after its epochs."""
    measured = scored.metrics
    for metric in registry.metrics_of(task):
        if metric.key in measured and any(f"val_{metric.key}" in row for row in progress.rows):
            break
    else:
        return None
    split = scored.data.splits[scored.split]
    evidence = Evidence(
        rows=progress.rows,
        metric=metric,
        value=measured[metric.key],
        split=scored.split,
        images=len(split),
        validated=validated,
        interval=summary.interval,
        baseline=summary.baseline,
        constant=summary.constant,
        best=int(progress.best.get("epoch", 0)) if progress.best else 0,
        longer=continue_command(task, options, folder),
    )
    return judge(evidence)


def continue_command(task: str, options: Any, folder: Path) -> str:
    """Twice as long."""
    length = f"--epochs {2 * options.epochs}" if options.minutes is None else f"--minutes {2 * options.minutes:g}"
    return f"vitrail {registry.TASKS[task].verb} --out {shlex.quote(str(folder))} --resume {length}"


def find_rise(found: Evidence) -> tuple[str, int] | None:
    """By how much the validation score got better in the last quarter, in words, and in how many epochs; None within its noise.

    The noise is the larger of two: the standard error of a share of so many images, and twice that of the trend's end, by its residuals.
    """
    metric = found.metric
    scores = read_column(found.rows, f"val_{metric.key}")
    scores = scores[-max(FEWEST, math.ceil(LAST_QUARTER * len(scores))) :]
    if len(scores) < 2:
        return None
    slope, error = fit_line(scores)
    steps = len(scores) - 1
    rise = slope * steps * (1 if metric.higher_is_better else -1)
    noise = SURE * error * steps
    if metric.is_share:
        level = min(max(float(scores[-1]), 0.0), 1.0)
        noise = max(noise, LEAST_RISE, math.sqrt(level * (1 - level) / max(1, found.validated)))
    if not rise > noise:
        return None
    return (f"{100 * rise:.1f} points" if metric.is_share else metric.format(rise)), len(scores)


def find_overfitting(rows: Sequence[Mapping[str, float | int]]) -> int | None:
    """Since which epoch the validation loss rises while the training loss falls; None where it does not, over the last third."""
    both = [
        row for row in rows if math.isfinite(row.get("train_loss", math.nan)) and math.isfinite(row.get("val_loss", math.nan))
    ]
    some = both[-max(FEWEST, math.ceil(LAST_THIRD * len(both))) :]
    if len(some) < FEWEST:
        return None
    train, val = read_column(some, "train_loss"), read_column(some, "val_loss")
    (down, _), (up, error) = fit_line(train), fit_line(val)
    lowest = min(both, key=lambda row: row["val_loss"])
    if down >= 0 or up <= SURE * error or val[-1] - lowest["val_loss"] <= LEAST_LOSS * abs(lowest["val_loss"]):
        return None
    return int(lowest["epoch"])


def read_column(rows: Sequence[Mapping[str, float | int]], name: str) -> np.ndarray:
    return np.array([row[name] for row in rows if math.isfinite(row.get(name, math.nan))], dtype=np.float64)


def fit_line(values: np.ndarray) -> tuple[float, float]:
    """Slope of the line through equally spaced values, and its standard error: 0 of two values."""
    at = np.arange(len(values)) - (len(values) - 1) / 2
    spread = float((at * at).sum())
    slope = float((at * values).sum()) / spread
    rest = values - values.mean() - slope * at
    variance = float((rest * rest).sum()) / (len(values) - 2) if len(values) > 2 else 0.0
    return slope, math.sqrt(variance / spread)
