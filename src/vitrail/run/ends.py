"""A run that is resumed with another end: what may change, what config.yaml remembers of it, and how often test was read."""

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitrail.errors import VitrailError
from vitrail.files import write_whole
from vitrail.learn.training.ends import End
from vitrail.learn.training.progress_bar import clock
from vitrail.learn.training.state import Progress, latest_state, read_progress
from vitrail.run.stored import CONFIG, LATER, METRICS, read_metrics, read_options
from vitrail.run_files import read_table
from vitrail.tasks.options import ENDS, spell

NAMES = ("epochs", "minutes")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def move_end(folder: Path, stored: Any, options: Any, *, given: Set[str]) -> Any:
    """The stored options with the end that was given, where it is another one."""
    asked = {name: getattr(options, name) for name in NAMES if name in given and getattr(options, name) not in (None, "auto")}
    minutes = asked.get("minutes")
    epochs = asked.get("epochs", stored.epochs)
    if not asked or End(epochs=stored.epochs, minutes=stored.minutes).is_at(epochs, minutes):
        return stored
    progress = progress_of(folder)
    if minutes is None and epochs <= progress.epoch:
        done = f"{progress.epoch} epoch{'' if progress.epoch == 1 else 's'}"
        raise VitrailError(
            f"--epochs {epochs} is behind the run, which has ended {done}: --resume --finish ends it where it is"
        )
    if minutes is not None and 60.0 * minutes <= progress.elapsed:
        done = clock(progress.elapsed)
        raise VitrailError(f"--minutes {minutes:g} is behind the run, which took {done}: --resume --finish ends it where it is")
    if options.finish:
        name = "epochs" if minutes is None else "minutes"
        raise VitrailError(f"{spell(name)} {asked[name]} and --finish are two ends: give one of them")
    return replace(stored, epochs=epochs, minutes=minutes)


def progress_of(folder: Path) -> Progress:
    """Of the newest checkpoint; of a run without one, nothing."""
    checkpoint = latest_state(folder / "state")
    return Progress() if checkpoint is None else read_progress(checkpoint)


def ends_of(folder: Path, progress: Progress) -> Sequence[End]:
    """The ends that a run has had, also of one that an earlier version began."""
    if progress.ends:
        return progress.ends
    options = read_options(folder / CONFIG)
    epochs, minutes = began_with(folder) or (options.epochs, options.minutes)
    return [End(epochs=epochs, minutes=minutes)]


def list_ends(folder: Path, options: Any) -> list[dict[str, Any]]:
    """For config.yaml: the ends of a run so far, the last as `options` say. Nothing where the first one holds."""
    if not (folder / CONFIG).is_file():
        return []
    progress = progress_of(folder)
    ends = list(ends_of(folder, progress))
    if progress.step and not ends[-1].is_at(options.epochs, options.minutes):
        ends.append(End(epochs=options.epochs, minutes=options.minutes, step=progress.step, elapsed=progress.elapsed))
    found = [describe_end(end) for end in ends]
    found += [{"stopped_by": progress.stopped, "at_step": progress.step}] if progress.stopped and progress.finished else []
    return found if len(found) > 1 else []


def describe_end(end: End) -> dict[str, Any]:
    length = {"epochs": end.epochs} if end.minutes is None else {"minutes": end.minutes}
    return {**length, "from_step": end.step} if end.step else length


def began_with(folder: Path) -> tuple[int, float | None] | None:
    """The first end of a run that had another, as config.yaml says; None of one that had not."""
    ends = read_table(folder / CONFIG).get(ENDS)
    if not isinstance(ends, list) or not ends or not isinstance(ends[0], dict):
        return None
    return ends[0].get("epochs", 0), ends[0].get("minutes")


def describe_ends(progress: Progress) -> str:
    """In a sentence for the report; nothing where the end was not moved."""
    first, *others = progress.ends
    if not others:
        return ""
    return "; ".join([str(first), *(f"from step {end.step} (epoch {end.epoch:g}) on {end}" for end in others)])


def is_finished(folder: Path, options: Any) -> bool:
    """Whether a run has come to the end that `options` say, and was scored there."""
    if not was_scored(folder):
        return False
    progress = progress_of(folder)
    at_end = ends_of(folder, progress)[-1].is_at(options.epochs, options.minutes)
    return progress.finished and at_end and 1 + len(read_later(folder)) > times_read(progress)


def was_scored(folder: Path) -> bool:
    """Whether a run has a test score, that of an earlier end too."""
    return (folder / CONFIG).is_file() and read_metrics(folder) is not None


def times_read(progress: Progress) -> int:
    """How often test was read before the present end."""
    return sum(end.read for end in progress.ends)


def name_reading(number: int, split: str) -> str:
    """`second reading of test`, of number 1."""
    return f"{ORDINALS[number] if number < len(ORDINALS) else f'{number + 1}th'} reading of {split}"


def read_later(folder: Path) -> dict[str, dict[str, float]]:
    """What later readings of test gave, by name: `second reading of test`."""
    try:
        found: dict[str, dict[str, Any]] = json.loads((folder / METRICS).read_text())[LATER]
        return {name: {key: float(value) for key, value in row.items() if key not in ("step", "epoch", "interval", "signature")}
                for name, row in found.items()}  # fmt: skip
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return {}


def write_metrics(folder: Path, record: Mapping[str, Any], progress: Progress) -> None:
    """metrics.json: the first reading as it was, later ones beside it."""
    number = times_read(progress)
    if number and (folder / METRICS).is_file():
        split, row = record["split"], {name: value for name, value in record.items() if name != "split"}
        first: dict[str, Any] = json.loads((folder / METRICS).read_text())
        later = dict(list(first.get(LATER, {}).items())[: number - 1])
        later[name_reading(number, split)] = {"step": progress.step, "epoch": progress.epoch, **row}
        record = {**first, LATER: later}
    write_whole(folder / METRICS, json.dumps(record, indent=2) + "\n")
