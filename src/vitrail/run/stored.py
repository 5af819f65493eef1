"""A run's files of options and scores: config.yaml, written by training and read by `--config`, `--resume` and `eval`; metrics.json."""

import json
from pathlib import Path
from typing import Any

from vitrail.models.folder import find
from vitrail.run_files import read_table
from vitrail.tasks import registry
from vitrail.tasks.options import ENDS, read_record

CONFIG, METRICS, REPORT = "config.yaml", "metrics.json", "report.html"
LATER = "later_readings"  # of a run that was continued after its end
NO_METRICS = ("split", "interval", "signature", LATER)  # keys of metrics.json that are none


def read_options(path: Path) -> Any:
    """The options of the run whose config.yaml this is, an older one's too."""
    record = {name: value for name, value in read_table(path).items() if name != ENDS}
    return read_record(registry.options_of(str(record.get("task", registry.DEFAULT))), record, what=str(path))


def training_options(run: str) -> Any:
    """The options of the run that a model comes from, or None for a model folder by itself."""
    folder = find(run).resolve()
    path = folder.parent / CONFIG
    if folder.name not in ("best", "last") or not path.is_file():
        return None
    return read_options(path)


def read_metrics(folder: Path) -> dict[str, float] | None:
    """The test metrics of a finished run, those of its first reading, or None."""
    try:
        found: dict[str, Any] = json.loads((folder / METRICS).read_text())
        return {name: float(value) for name, value in found.items() if name not in NO_METRICS}
    except (OSError, ValueError, AttributeError, TypeError):
        return None


def scored_split(folder: Path) -> str:
    """What a finished run was scored on: test, or val where there is no test split."""
    try:
        return str(json.loads((folder / METRICS).read_text()).get("split", "test"))
    except (OSError, ValueError, AttributeError):
        return "test"


def same_source(one: str, other: str) -> bool:
    return one == other or Path(one).expanduser().resolve() == Path(other).expanduser().resolve()
