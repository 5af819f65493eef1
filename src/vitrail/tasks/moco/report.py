"""The report of MoCo: whether it collapsed, and which images are neighbors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitrail.data.dataset import DataSet
from vitrail.report import watching
from vitrail.report.frame import Frame, write_framed
from vitrail.tasks.pretraining import feature_commands
from vitrail.tasks.task import Scored, Setup


def write(path: Path, scored: Scored[DataSet], setup: Setup[Any, DataSet, Any], frame: Frame) -> None:
    """report.html."""
    sections = (watching.show_health(frame.rows, scored.metrics), watching.show_neighbors(scored.model.backbone, setup.data))
    write_framed(path, frame, sections)


def commands(run: str, model: Any) -> Mapping[str, str]:
    return feature_commands(run)
