"""What the card of a model says that takes a picture and gives a better one."""

import re
from collections.abc import Iterable
from typing import Any

from vitrail.models.catalogue import count_parameters
from vitrail.models.markdown import block, literal, plain

DETAILS = ("width", "depth", "depths", "heads", "window", "patch", "levels", "upsampler", "position")
WORDS = {
    "sr": "enlarges pictures {} times",
    "noise": "takes away Gaussian noise of {} levels of 255",
    "jpeg": "mends what JPEG of quality {} has done",
    "real": "cleans pictures of unknown origin and enlarges them {} times",
}


def describe_damage(degradation: str | None) -> str:
    """What a model against a degradation does, in words."""
    found = re.fullmatch(r"([a-z]+)(\d+)", degradation or "")
    return WORDS[found[1]].format(found[2]) if found and found[1] in WORDS else "has not learned what to undo yet"


def describe_restoration(model: Any) -> Iterable[str]:
    config = model.config
    kind = {1: "gray", 3: "color"}.get(config.in_channels, f"{config.in_channels} channels")
    yield f"A model of the Vitrail library: {count_parameters(model):,} parameters, pictures of any size in {kind}."
    yield f"It {describe_damage(config.degradation)}."
    details = ", ".join(f"{name} {getattr(config, name)}" for name in DETAILS if hasattr(config, name))
    yield f"Architecture {literal(model.architecture)}: {plain(details)}."


def use_restoration() -> Iterable[str]:
    yield "## How to use it"
    call = 'restore = vt.pipeline("image-to-image", "path/to/this/folder")'
    yield block(["import vitrail as vt", "", call, 'restore("picture.png").save("better.png")'], "python")
    yield block(["vitrail restore path/to/this/folder picture.png --out better/"], "bash")


def restoration_limits(model: Any) -> list[str]:
    return [
        f"It learned to undo {plain(model.config.degradation or 'nothing yet')} and may harm pictures with other damage.",
        "Details that it adds are likely ones, not necessarily those that were there: no evidence of anything.",
    ]
