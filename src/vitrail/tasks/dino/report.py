"""The report of DINO: whether it collapsed, what the class token attends to, which images are neighbors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vitrail.data.dataset import DataSet
from vitrail.learn.training.state import Row
from vitrail.models.dino import DINO
from vitrail.report import watching
from vitrail.report.page import Section
from vitrail.tasks.pretraining import feature_commands
from vitrail.tasks.stages import Scored, Setup


def sections(scored: Scored[DataSet], setup: Setup[Any, DataSet, Any], rows: Sequence[Row]) -> Iterable[Section]:
    backbone, data = scored.model.backbone, setup.data
    yield watching.show_health(rows, scored.metrics)
    yield watching.show_class_attention(backbone, data["val"])
    yield watching.show_neighbors(backbone, data)


def commands(run: str, model: DINO) -> Mapping[str, str]:
    return feature_commands(run)
