"""What the studio knows of a segmenter before it is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vitrail.data.class_colors import Color, choose_colors
from vitrail.deploy.studio.model_facts import PictureModelFacts, has_weights, name_classes
from vitrail.explain.record import attention_layers
from vitrail.models.catalogue import count_parameters
from vitrail.preprocessing import Preprocessing


@dataclass(frozen=True, kw_only=True)
class SegmentFacts(PictureModelFacts):
    """`head` is the kind of head on the encoder; `attention`, whether the encoder's can be shown."""

    task: ClassVar[str] = "segment"
    does: ClassVar[str] = "gives classes to pixels"
    labels: tuple[str, ...]
    colors: tuple[Color, ...]
    encoder: str
    head: str
    layers: int

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {
            "labels": self.labels,
            "colors": self.colors,
            "encoder": self.encoder,
            "head": self.head,
            "layers": self.layers,
        }


def read_segment_facts(
    model: Any, labels: Sequence[str] | None, colors: Sequence[Any] | None, preprocessing: Preprocessing
) -> SegmentFacts:
    """Of a model without weights, on torch's meta device. `colors` as its file has them, unchecked."""
    config, names = model.config, name_classes(labels, model.num_classes)
    model.colors = colors  # refuses what are no colors
    shown = has_weights(model.backbone) and not getattr(model.backbone.config, "merge", 0)
    return SegmentFacts(
        architecture=model.architecture,
        labels=names,
        colors=model.colors or choose_colors(names),
        preprocessing=preprocessing,
        encoder=config.network,
        head=config.head,
        layers=len(attention_layers(model.backbone)) if shown else 0,
        parameters=count_parameters(model),
        attention=shown,
    )
