"""A run's options on disk: config.yaml, written by training and read by `--config`, `--resume` and `eval`. No torch here."""

from pathlib import Path
from typing import Any

import yaml

from vitrail.errors import VitrailError
from vitrail.jobs.options import TrainOptions
from vitrail.records import from_record, to_record

NOT_STORED = ("out", "resume")  # where and how a run is started, not what it is


def to_store(options: TrainOptions) -> dict[str, Any]:
    """What config.yaml says."""
    return {name: value for name, value in to_record(options).items() if name not in NOT_STORED}


def read_table(path: Path) -> dict[Any, Any]:
    """A YAML file of options, whatever they are."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise VitrailError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise VitrailError(f"{path}: cannot be read as YAML ({error})") from None
    if not isinstance(found, dict):
        raise VitrailError(f"{path}: expected a table of options, got {type(found).__name__}")
    return found


def read_options(path: Path) -> TrainOptions:
    """The options of the run whose config.yaml this is."""
    return from_record(TrainOptions, read_table(path), what=str(path))
