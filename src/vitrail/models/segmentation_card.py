"""What the card of a model says that names the class of every pixel."""

from collections.abc import Iterable
from typing import Any

from vitrail.models.catalogue import count_parameters
from vitrail.models.markdown import block, literal

DETAILS = ("head", "layers", "head_width", "head_depth", "norm", "position")
ENCODER = ("width", "depth", "widths", "depths", "heads", "tokenizer", "patch")


def describe_segmenter(model: Any) -> Iterable[str]:
    config, encoder = model.config, model.config.backbone
    height, width = model.image_size
    yield (
        f"A model of the Vitrail library: {count_parameters(model):,} parameters, one of {model.num_classes} classes for every pixel of a "
        f"picture with {config.in_channels} channel(s). It learned from {height}x{width} pixels (height x width) and takes any size."
    )
    head = ", ".join(f"{name} {getattr(config, name)}" for name in DETAILS if getattr(config, name) is not None)
    inside = ", ".join(f"{name} {encoder[name]}" for name in ENCODER if name in encoder)
    yield f"Architecture {literal(model.architecture)}: {head}; encoder {literal(config.network)}: {inside}."


def use_segmenter() -> Iterable[str]:
    yield "## How to use it"
    call = 'segment = vt.pipeline("image-segmentation", "path/to/this/folder")'
    yield block(["import vitrail as vt", "", call, 'segment("picture.png")  # [{"label": ..., "mask": ...}, ...]'], "python")
    yield block(["vitrail predict path/to/this/folder picture.png"], "bash")


def segmentation_limits(model: Any) -> list[str]:
    return [f"Every pixel gets one of its {model.num_classes} classes, also where something else is to be seen."]
