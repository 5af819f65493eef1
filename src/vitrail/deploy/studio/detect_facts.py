"""What the studio knows of a detector before it is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vitrail.deploy.studio.model_facts import PictureModelFacts, has_weights, name_classes
from vitrail.models.catalogue import count_parameters
from vitrail.models.detr import usual_threshold
from vitrail.preprocessing import Preprocessing
from vitrail.report.boxes import class_color


@dataclass(frozen=True, kw_only=True)
class DetectFacts(PictureModelFacts):
    """`threshold` is the score from which on `vitrail predict` gives a box."""

    task: ClassVar[str] = "detect"
    does: ClassVar[str] = "finds objects"
    labels: tuple[str, ...]
    queries: int
    layers: int  # of the encoder
    decoder_layers: int
    heads: int
    threshold: float

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {
            "labels": self.labels,
            "colors": [class_color(number) for number in range(len(self.labels))],
            "queries": self.queries,
            "layers": self.layers,
            "decoder_layers": self.decoder_layers,
            "heads": self.heads,
            "threshold": self.threshold,
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
