"""What the card of a model says that finds objects in pictures."""

from collections.abc import Iterable
from typing import Any

from vitrail.models.markdown import block

TITLE = "object detector"
DETAILS = ("network", "queries", "decoder_depth", "levels", "focal")  # beside those of every model


def describe_detector(model: Any) -> Iterable[str]:
    """What tells one detector from another, behind what is said of every model of pictures."""
    said = ", ".join(f"{name} {getattr(model.config, name)}" for name in DETAILS)
    yield f"It answers with at most {model.config.queries} boxes, each with a class and a score; no overlapping ones are taken away afterwards. Detector: {said}."


def use_detector() -> Iterable[str]:
    yield "## How to use it"
    call = 'detect = vt.pipeline("object-detection", "path/to/this/folder")'
    shape = '[{"score": ..., "label": ..., "box": {"xmin": ..., "ymin": ..., "xmax": ..., "ymax": ...}}, ...]'
    yield block(["import vitrail as vt", "", call, f'detect("picture.png")  # {shape}'], "python")
    yield block(["vitrail predict path/to/this/folder picture.png"], "bash")


def detector_limits(model: Any) -> list[str]:
    return [
        f"It finds objects of its {model.num_classes} classes and passes over all others, or takes them for one of its own.",
        f"It finds at most {model.config.queries} objects in a picture, and small ones least.",
    ]
