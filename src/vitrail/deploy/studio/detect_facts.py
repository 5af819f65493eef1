"""What the studio knows of a detector before it is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vitrail.errors import VitrailError
from vitrail.explain.record import check_weights
from vitrail.models.catalogue import count_parameters
from vitrail.preprocessing import Preprocessing
from vitrail.report.boxes import class_color
from vitrail.tasks.detect import usual_threshold


@dataclass(frozen=True, kw_only=True)
class DetectFacts:
    """`threshold` is the score from which on `vitrail predict` gives a box."""

    task: ClassVar[str] = "detect"
    architecture: str
    labels: tuple[str, ...]
    preprocessing: Preprocessing
    queries: int
    layers: int  # of the encoder
    decoder_layers: int
    heads: int
    threshold: float
    parameters: int
    attention: bool

    @property
    def image_size(self) -> tuple[int, int]:
        return self.preprocessing.size

    def to_json(self) -> dict[str, Any]:
        return {
            "architecture": self.architecture,
            "task": self.task,
            "labels": self.labels,
            "colors": [class_color(number) for number in range(len(self.labels))],
            "image_size": self.image_size,
            "channels": self.preprocessing.channels,
            "queries": self.queries,
            "layers": self.layers,
            "decoder_layers": self.decoder_layers,
            "heads": self.heads,
            "threshold": self.threshold,
            "parameters": self.parameters,
            "attention": self.attention,
        }


def read_detect_facts(model: Any, labels: Sequence[str] | None, preprocessing: Preprocessing) -> DetectFacts:
    """Of a model without weights, on torch's meta device."""
    config = model.config
    return DetectFacts(
        architecture=model.architecture,
        labels=name_classes(labels, config.num_classes),
        preprocessing=preprocessing,
        queries=config.queries,
        layers=config.depth,
        decoder_layers=config.decoder_depth,
        heads=config.heads,
        threshold=usual_threshold(config),
        parameters=count_parameters(model),
        attention=has_weights(model),
    )


def name_classes(labels: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The names of classes, or LABEL_0 and so on where there are none."""
    return tuple(labels or (f"LABEL_{number}" for number in range(count)))


def has_weights(model: Any) -> bool:
    """Whether attention can be recorded in every layer."""
    try:
        check_weights(model)
    except VitrailError:
        return False
    return True
