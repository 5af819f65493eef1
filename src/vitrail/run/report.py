"""report.html: the frame that every task has, around what the task itself shows."""

import shlex
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from vitrail.learn.training.progress_bar import clock
from vitrail.learn.training.run_folder import read_steps
from vitrail.learn.training.state import Progress, Row, latest_state, read_progress
from vitrail.models.catalogue import count_parameters
from vitrail.models.model import Model
from vitrail.run.stored import CONFIG, REPORT
from vitrail.tasks import registry
from vitrail.tasks.metric import describe_metrics, headline
from vitrail.tasks.stages import Scored, Setup

STOPPED = {"finish": "ended by --finish", "patience": "stopped by --patience"}


def write_report(
    folder: Path,
    run: str,
    setup: Setup[Any, Any, Any],
    scored: Scored[Any],
    *,
    title: str,
    split: str,
    certainty: str,
    details: Mapping[str, str],
    rows: Sequence[Row],
    configuration: Mapping[str, Any],
    trained_in: Path | None,
    verdict: str = "",
) -> None:
    """`run` is what commands name; `trained_in` the folder of the run that a model comes from, None for a model folder by itself."""
    from vitrail.report.figures import Rows  # they import matplotlib
    from vitrail.report.frame import Frame, write_page

    name, model = setup.options.task, scored.model
    own, metrics = registry.part(name, "report"), scored.metrics
    known, quoted = registry.metrics_of(name), shlex.quote(run)
    commands = {} if trained_in is None or own is None else dict(own.commands(quoted, model))
    commands |= {"Score it again": f"vitrail eval {quoted}"} if trained_in is None or own is None else {}
    frame = Frame(
        title=title,
        headline=headline(known, split, metrics),
        certainty=certainty,
        verdict=verdict,
        numbers=describe_metrics(known, metrics) if any(isfinite(value) for value in metrics.values()) else {},
        details=details,
        rows=Rows.of(
            rows,
            next((one for one in known if any(f"val_{one.key}" in row for row in rows)), None),
            steps=() if trained_in is None else read_steps(trained_in),
            marks=() if trained_in is None else read_marks(trained_in),
        ),
        commands={**commands, **({} if trained_in is None else later_commands(trained_in, task=name))},
        configuration=configuration,
    )
    write_page(folder / REPORT, frame, () if own is None else own.sections(scored, setup, frame.rows))


def later_commands(folder: Path, *, task: str) -> dict[str, str]:
    """What to do with a run at any time: what it does -> a line for the shell."""
    verb, quoted = registry.TASKS[task].verb, shlex.quote(str(folder))
    return {
        "Continue it, if it was interrupted": f"vitrail {verb} --out {quoted} --resume",
        "Train it longer, or end it": f"vitrail {verb} --out {quoted} --resume --epochs N\nvitrail {verb} --out {quoted} --resume --finish",
        "Repeat it": f"vitrail {verb} --config {shlex.quote(str(folder / CONFIG))}",
    }


def describe_trained(options: Any, model: Model) -> str:
    return f"{options.model if options.weights is None else options.weights}, {count_parameters(model):,} parameters"


def describe_training(options: Any, progress: Progress) -> str:
    """Nothing where no epoch has ended."""
    if not progress.best:
        return ""
    best = f"best: epoch {progress.best['epoch']:.0f}"
    stopped = f"; {STOPPED[progress.stopped]}" if progress.stopped else ""
    return (
        f"{progress.epoch} epoch{'s' * (progress.epoch != 1)} in {clock(progress.elapsed)} on {options.device}; {best}{stopped}"
    )


def read_marks(folder: Path) -> Sequence[float]:
    """Epochs at which the end of a run was moved, for its curves."""
    checkpoint = latest_state(folder / "state")
    return () if checkpoint is None else [end.epoch for end in read_progress(checkpoint).ends[1:]]
