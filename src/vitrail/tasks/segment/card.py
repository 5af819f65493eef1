"""What the card of a segmenter says."""

from vitrail.models.catalogue import count_parameters
from vitrail.models.markdown import literal
from vitrail.models.readme import describe_inputs
from vitrail.models.segmenter import Segmenter
from vitrail.tasks.card import FOLDER, Card, use_pipeline, use_shell

DETAILS = ("head", "layers", "head_width", "head_depth", "norm", "position")
ENCODER = ("width", "depth", "widths", "depths", "heads", "tokenizer", "patch")


def describe_segmenter(model: Segmenter) -> Card:
    config, encoder = model.config, model.config.backbone
    height, width = model.image_size
    head = ", ".join(f"{name} {getattr(config, name)}" for name in DETAILS if getattr(config, name) is not None)
    inside = ", ".join(f"{name} {encoder[name]}" for name in ENCODER if name in encoder)
    return Card(
        title="segmentation of images",
        about=[
            f"A model of the Vitrail library: {count_parameters(model):,} parameters, one of {model.num_classes} classes for every pixel of an "
            f"image with {config.in_channels} channel(s). It learned from {height}x{width} pixels (height x width) and takes any size.",
            f"Architecture {literal(model.architecture)}: {head}; encoder {literal(config.network)}: {inside}.",
            *describe_inputs(model),
        ],
        use=[
            use_pipeline("segment", "image-segmentation", 'segment("image.png")  # [{"label": ..., "mask": ...}, ...]'),
            use_shell(f"vitrail predict {FOLDER} image.png"),
        ],
        limits=[f"Every pixel gets one of its {model.num_classes} classes, also where something else is to be seen."],
    )
