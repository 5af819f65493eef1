"""What goes into an exported program and what comes out, by name, and what the numbers mean."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from vitrail.models.purpose import purpose_of


class Interface(NamedTuple):
    """`outputs`: each by its name with its axes and its meaning, in the order in which they come."""

    input: str
    outputs: Mapping[str, str]

    @property
    def plural(self) -> str:
        """What is given to it, in a sentence."""
        return "pictures" if self.input == "images" else "volumes"


def interface_of(model: Any) -> Interface:
    purpose = purpose_of(model)
    if purpose == "classify":
        return Interface("images", {"logits": f"batch, classes; before {'sigmoid' if model.multi_label else 'softmax'}"})
    if purpose == "restore":
        return Interface("images", {"pictures": "batch, channels, height, width"})
    if purpose == "segment":
        return Interface("images", {"logits": "batch, classes, height, width; before softmax over the classes"})
    if purpose == "segment3d":
        return Interface("volumes", {"logits": "batch, classes, x, y, z; before softmax over the classes"})
    if purpose == "detect":
        scores = "before sigmoid" if model.config.focal else "before softmax over the classes; the last one is: nothing"
        boxes = "batch, queries, 4; center x, center y, width, height, in shares of the picture's sides"
        return Interface("images", {"logits": f"batch, queries, classes; {scores}", "boxes": boxes})
    return Interface("images", {"features": "batch, width"})
