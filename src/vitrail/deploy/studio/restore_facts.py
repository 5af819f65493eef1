"""What the studio knows of a model that restores pictures before it is loaded."""

from dataclasses import dataclass
from typing import Any, ClassVar

from vitrail.data.degradation import Degradation, describe_degradation, parse_degradation
from vitrail.errors import VitrailError
from vitrail.models.catalogue import count_parameters


@dataclass(frozen=True, kw_only=True)
class RestoreFacts:
    """`degradation` is what it learned to undo, None where it does not say."""

    does: ClassVar[str] = "restores pictures"
    architecture: str
    scale: int
    channels: int
    degradation: Degradation | None
    parameters: int

    def to_json(self) -> dict[str, Any]:
        return {
            "architecture": self.architecture,
            "task": "restore",
            "scale": self.scale,
            "channels": self.channels,
            "degradation": None if self.degradation is None else str(self.degradation),
            "degraded": None if self.degradation is None else describe_degradation(self.degradation),
            "parameters": self.parameters,
            "attention": False,
        }


def read_restore_facts(model: Any) -> RestoreFacts:
    """Of a model without weights, on torch's meta device."""
    channels, named = model.config.in_channels, model.config.degradation
    if channels not in (1, 3) or model.config.out_channels != channels:
        raise VitrailError(
            f"the studio restores pictures of 1 or 3 channels: this model reads {channels} and gives {model.config.out_channels}"
        )
    found = None if named is None else parse_degradation(named)
    return RestoreFacts(
        architecture=model.architecture,
        scale=model.scale,
        channels=channels,
        degradation=found if found is not None and found.scale == model.scale else None,
        parameters=count_parameters(model),
    )
