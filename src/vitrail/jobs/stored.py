"""A run's options on disk: config.yaml, written by training and read by `--config`, `--resume` and `eval`. No torch here."""

from pathlib import Path
from typing import Any

from vitrail.jobs.options import TrainOptions
from vitrail.jobs.trades import foreign_options
from vitrail.records import from_record, to_record
from vitrail.run_files import read_table

NOT_STORED = ("out", "resume")  # where and how a run is started, not what it is


def to_store(options: TrainOptions) -> dict[str, Any]:
    """What config.yaml says: nothing about options that the task does not have."""
    left_out = {*NOT_STORED, *foreign_options(options.task)}
    return {name: value for name, value in to_record(options).items() if name not in left_out}


def read_options(path: Path) -> TrainOptions:
    """The options of the run whose config.yaml this is."""
    return from_record(TrainOptions, read_table(path), what=str(path))
