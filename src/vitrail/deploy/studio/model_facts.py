"""What the studio knows of any model that reads pictures and has a page of its own, before it is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vitrail.errors import VitrailError
from vitrail.explain.record import check_weights
from vitrail.preprocessing import Preprocessing


@dataclass(frozen=True, kw_only=True)
class PictureModelFacts:
    """Each kind adds its own. `task` is what the page goes by, `does` begins the sentence that other pages refuse it with."""

    task: ClassVar[str]
    does: ClassVar[str]
    architecture: str
    preprocessing: Preprocessing
    parameters: int
    attention: bool = False

    @property
    def image_size(self) -> tuple[int, int]:
        return self.preprocessing.size

    def to_json(self) -> dict[str, Any]:
        return {
            "architecture": self.architecture,
            "task": self.task,
            "image_size": self.image_size,
            "channels": self.preprocessing.channels,
            "parameters": self.parameters,
            "attention": self.attention,
        }


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
