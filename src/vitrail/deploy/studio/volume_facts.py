"""What the studio knows of a model that labels volumes before it is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vitrail.data.class_colors import Color, choose_colors
from vitrail.models.catalogue import count_parameters


@dataclass(frozen=True, kw_only=True)
class VolumeFacts:
    """`spacing`: the edges of the voxels it sees, in mm; None: those of the file."""

    task: ClassVar[str] = "segment3d"
    does: ClassVar[str] = "labels volumes"
    architecture: str
    labels: tuple[str, ...]
    colors: tuple[Color, ...]
    crop: tuple[int, int, int]
    spacing: tuple[float, float, float] | None
    parameters: int

    def to_json(self) -> dict[str, Any]:
        return {
            "architecture": self.architecture,
            "task": self.task,
            "labels": self.labels,
            "colors": self.colors,
            "crop": self.crop,
            "spacing": self.spacing,
            "parameters": self.parameters,
            "attention": False,
        }


def read_volume_facts(model: Any, labels: Sequence[str] | None) -> VolumeFacts:
    """Of a model without weights, on torch's meta device."""
    names = tuple(labels or map(str, model.config.values or range(model.num_classes)))
    return VolumeFacts(
        architecture=model.architecture,
        labels=names,
        colors=((0, 0, 0), *choose_colors(names[1:])),  # the background is not painted
        crop=model.image_size,
        spacing=model.config.spacing,
        parameters=count_parameters(model),
    )
