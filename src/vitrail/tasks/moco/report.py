"""The report of MoCo: whether it collapsed, and which images are neighbors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vitrail.data.dataset import DataSet
from vitrail.learn.training.state import Row
from vitrail.models.moco import MoCo
from vitrail.report import watching
from vitrail.report.page import Section
from vitrail.tasks.pretraining import feature_commands
from vitrail.tasks.stages import Scored, Setup


def sections(scored: Scored[DataSet], setup: Setup[Any, DataSet, Any], rows: Sequence[Row]) -> Iterable[Section]:
    yield watching.show_health(rows, scored.metrics)
    yield watching.show_neighbors(scored.model.backbone, setup.data)


def commands(run: str, model: MoCo) -> Mapping[str, str]:
    return feature_commands(run)
