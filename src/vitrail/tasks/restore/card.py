"""What the card of a restorer says."""

import re

from vitrail.models.catalogue import count_parameters
from vitrail.models.markdown import literal, plain
from vitrail.models.restorer import Restorer
from vitrail.records import has_field
from vitrail.tasks.card import FOLDER, Card, use_pipeline, use_shell

DETAILS = ("width", "depth", "depths", "heads", "window", "patch", "levels", "upsampler", "position")
WORDS = {
    "sr": "enlarges images {} times",
    "noise": "takes away Gaussian noise of {} levels of 255",
    "jpeg": "mends what JPEG of quality {} has done",
    "real": "cleans images of unknown origin and enlarges them {} times",
}


def describe_damage(degradation: str | None) -> str:
    """What a model against a degradation does, in words."""
    found = re.fullmatch(r"([a-z]+)(\d+)", degradation or "")
    return WORDS[found[1]].format(found[2]) if found and found[1] in WORDS else "has not learned what to undo yet"


def describe_restorer(model: Restorer) -> Card:
    config = model.config
    kind = {1: "gray", 3: "color"}.get(config.in_channels, f"{config.in_channels} channels")
    details = ", ".join(f"{name} {getattr(config, name)}" for name in DETAILS if has_field(config, name))
    return Card(
        title="restoration of images",
        about=[
            f"A model of the Vitrail library: {count_parameters(model):,} parameters, images of any size in {kind}.",
            f"It {describe_damage(config.degradation)}.",
            f"Architecture {literal(model.architecture)}: {plain(details)}.",
        ],
        use=[
            use_pipeline("restore", "image-to-image", 'restore("image.png").save("better.png")'),
            use_shell(f"vitrail restore {FOLDER} image.png --out better/"),
        ],
        limits=[
            f"It learned to undo {plain(config.degradation or 'nothing yet')} and may harm images with other damage.",
            "Details that it adds are likely ones, not necessarily those that were there: no evidence of anything.",
        ],
    )
