"""Cross-validation: `--folds K` trains K runs, each validated on another part of train and val, then one on all of both.

Each is a run like any other, RUN/folds/1 to RUN/folds/K; RUN itself is the last one. The layer above run/train.py.
"""

import os
import statistics
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfile
from typing import Any

import yaml

from vitrail.data.bad_files import BAD_FILES
from vitrail.data.copies import COPIES
from vitrail.data.opening import find_data
from vitrail.errors import VitrailError
from vitrail.files import write_table, write_whole
from vitrail.learn.training.interruption import Interrupted
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.run_folder import new_run_folder
from vitrail.learn.training.state import latest_state, read_progress
from vitrail.learn.training.world import read_environment
from vitrail.run.ends import progress_of, was_scored
from vitrail.run.stored import CONFIG, read_metrics, read_options
from vitrail.run.train import Run, check_folder, run_training, stored_options
from vitrail.tasks import registry
from vitrail.tasks.metric import first_measured
from vitrail.tasks.options import check, has_option, to_store

FOLDS, TABLE = "folds", "folds.csv"


@dataclass(frozen=True, slots=True)
class Validated:
    """What a fold came to: the epoch in best/, and what that model does on the images of the fold."""

    best_epoch: int
    metrics: Mapping[str, float]


def run_all(options: Any, *, given: Set[str], quiet: bool = False) -> Run:
    """One run, or all runs of --folds: also where `--out DIR --resume` names such a folder without saying so again."""
    known = has_option(options, "folds")
    of_folds = known and options.folds is not None and options.fold is None
    if known and options.resume and options.out is not None:
        of_folds = of_folds or (Path(options.out).expanduser() / FOLDS / CONFIG).is_file()
    return run_folds(options, given=given, quiet=quiet) if of_folds else run_training(options, given=given, quiet=quiet)


def run_folds(options: Any, *, given: Set[str], quiet: bool = False) -> Run:
    """Every fold that is not finished yet, the table of all, and the last model. `given`: the options that the user wrote."""
    check(options)
    if read_environment(os.environ)[1] > 1:
        raise VitrailError(f"--folds {options.folds} trains one run after the other: start it without torchrun")
    folder, asked = begin(options.normalize(), given)
    bar = ProgressBar(quiet=quiet)
    if is_done(folder):
        return run_training(replace(asked, out=str(folder), resume=True), given=set(), quiet=quiet)
    try:
        found = [train_fold(asked, folder, number, bar, quiet=quiet) for number in range(1, asked.folds + 1)]
        for line in describe_folds(asked.task, found):
            bar.say(line)
        write_folds(folder / TABLE, found)
        return train_last(asked, folder, found, bar, quiet=quiet)
    except Interrupted as stop:
        stop.where = folder  # whose --resume goes on with the fold that was interrupted
        raise


def begin(options: Any, given: Set[str]) -> tuple[Path, Any]:
    """The folder, and what was asked for at first. Its config.yaml is that until the last model has its own."""
    if options.resume and options.out is None:
        raise VitrailError("--resume needs --out: the folder of the run to continue")
    if options.out is None:
        folder = new_run_folder(Path("runs") / options.task, find_data(options.data).name)
    else:
        folder = Path(options.out).expanduser()
        if options.resume and (folder / FOLDS / CONFIG).is_file():
            return folder, replace(continue_as(folder, options, given), out=str(folder))
        if options.resume and (folder / CONFIG).is_file():
            raise VitrailError(f"{folder}: is a run without --folds, which cannot be continued with --folds {options.folds}")
        check_folder(folder, options, given=given)
    return folder, replace(options, out=str(folder))


def continue_as(folder: Path, options: Any, given: Set[str]) -> Any:
    """What was asked for at first, which those options that are given again must say: folds of different lengths could not be compared."""
    if options.finish:
        raise VitrailError(f"--finish ends one run, and {folder} has several: give one of those in {folder / FOLDS}")
    stored = read_options(folder / FOLDS / CONFIG)
    found = stored_options(folder / FOLDS, options, given=given)
    for name in ("epochs", "minutes"):
        if getattr(found, name) != getattr(stored, name):
            known = getattr(stored, name)
            raise VitrailError(
                f"--{name} {getattr(found, name)} differs from the folds' own ({known}), whose end cannot be moved"
            )
    return found


def is_done(folder: Path) -> bool:
    """Whether a run was trained to its end and scored."""
    return was_scored(folder) and progress_of(folder).finished


def train_fold(asked: Any, folder: Path, number: int, bar: ProgressBar, *, quiet: bool) -> Validated:
    """One run. The first one decides what is `auto`, what cannot be read and what is a copy; the others take it from there."""
    first, own = folder / FOLDS / "1", folder / FOLDS / str(number)
    if not is_done(own):
        bar.say(f"fold {number} of {asked.folds}")
        if number > 1 and not (own / CONFIG).is_file():
            take_over(first, own, replace(read_options(first / CONFIG), fold=number))
        minutes = None if asked.minutes is None else asked.minutes / (asked.folds + 1)
        options = replace(asked, fold=number, minutes=minutes, out=str(own), resume=True)
        if number == 1 and not (own / CONFIG).is_file():
            train_first(options, asked, folder, quiet=quiet)
        else:
            run_training(options, given=set(), quiet=quiet)
    return read_fold(own)


def train_first(options: Any, asked: Any, folder: Path, *, quiet: bool) -> None:
    """The first fold, behind what a resumed run must find. Where it cannot begin, nothing is left behind."""
    (folder / FOLDS).mkdir(parents=True, exist_ok=True)
    written = [folder / FOLDS / CONFIG, folder / CONFIG]
    for path in written:
        write_whole(path, yaml.safe_dump(to_store(asked), sort_keys=False, allow_unicode=True))
    try:
        run_training(options, given=set(), quiet=quiet)
    except VitrailError:
        if not (folder / FOLDS / "1" / CONFIG).is_file():
            for path in written:
                path.unlink()
            with suppress(OSError):  # one that has something in it stays
                for empty in (folder / FOLDS, folder):
                    empty.rmdir()
        raise


def take_over(first: Path, folder: Path, options: Any) -> None:
    """Let a run begin with the options and the lists of the first one, as if it had been interrupted before its first checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (BAD_FILES, COPIES):
        if (first / name).is_file():
            copyfile(first / name, folder / name)
    write_whole(folder / CONFIG, yaml.safe_dump(to_store(options), sort_keys=False, allow_unicode=True))


def train_last(asked: Any, folder: Path, found: Sequence[Validated], bar: ProgressBar, *, quiet: bool) -> Run:
    """On all images but test, for the median of the best epochs; the only one that reads test."""
    epochs = median_epoch(found)
    bar.say(f"all of train and val, for {epochs} {'epoch' if epochs == 1 else 'epochs'}")
    if latest_state(folder / "state") is None:
        first = folder / FOLDS / "1"
        take_over(first, folder, replace(read_options(first / CONFIG), fold=None, epochs=epochs, minutes=None, patience=None))
    return run_training(replace(asked, resume=True), given=set(), quiet=quiet)


def read_fold(folder: Path) -> Validated:
    """Of a finished one."""
    checkpoint, metrics = latest_state(folder / "state"), read_metrics(folder)
    if checkpoint is None or metrics is None:
        raise VitrailError(
            f"{folder}: this fold is finished, but its state or its metrics.json is gone; remove it to train it again"
        )
    best = read_progress(checkpoint).best or {}
    return Validated(best_epoch=int(best.get("epoch", 1)), metrics=metrics)


def median_epoch(found: Sequence[Validated]) -> int:
    """The lower one of two in the middle."""
    return statistics.median_low(one.best_epoch for one in found)


def write_folds(path: Path, found: Sequence[Validated]) -> None:
    """A line per fold, then mean and standard deviation."""
    keys = [key for key in found[0].metrics if all(key in one.metrics for one in found)]
    columns = [[float(one.best_epoch) for one in found], *([one.metrics[key] for one in found] for key in keys)]
    rows: list[list[object]] = [["fold", "best_epoch", *(f"val_{key}" for key in keys)]]
    rows += [[number, one.best_epoch, *(one.metrics[key] for key in keys)] for number, one in enumerate(found, 1)]
    rows += [["mean", *map(statistics.fmean, columns)], ["std", *map(statistics.stdev, columns)]]
    write_table(path, rows)


def describe_folds(task: str, found: Sequence[Validated]) -> list[str]:
    """Each fold, and the mean with its spread."""
    metric = first_measured(registry.metrics_of(task), found[0].metrics)
    if metric is None:
        return []
    values = [one.metrics[metric.key] for one in found]
    lines = [
        f"fold {number}: {metric.headline('val', value)}, best epoch {one.best_epoch}"
        for number, (one, value) in enumerate(zip(found, values, strict=True), 1)
    ]
    mean, spread = metric.format(statistics.fmean(values)), metric.format(statistics.stdev(values))
    lines.append(
        f"{len(found)} folds: {metric.headline('val', statistics.fmean(values)).removesuffix(mean)}{mean} ± {spread} (standard deviation), "
        f"{metric.format(min(values))} to {metric.format(max(values))}; each chose its best epoch, so the mean is a little too good"
    )
    return lines
