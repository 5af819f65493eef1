"""What the card of a detector says."""

from vitrail.models.detr import Detector
from vitrail.models.readme import describe_config, describe_inputs, describe_size
from vitrail.tasks.card import FOLDER, Card, use_pipeline, use_shell

DETAILS = ("network", "queries", "decoder_depth", "levels", "focal")  # what tells one detector from another
SHAPE = '[{"score": ..., "label": ..., "box": {"xmin": ..., "ymin": ..., "xmax": ..., "ymax": ...}}, ...]'


def describe_detector(model: Detector) -> Card:
    details = ", ".join(f"{name} {getattr(model.config, name)}" for name in DETAILS)
    boxes = f"It answers with at most {model.config.queries} boxes, each with a class and a score; no overlapping ones are taken away afterwards. Detector: {details}."
    return Card(
        title="object detector",
        about=[boxes, describe_size(model), describe_config(model), *describe_inputs(model)],
        use=[
            use_pipeline("detect", "object-detection", f'detect("image.png")  # {SHAPE}'),
            use_shell(f"vitrail predict {FOLDER} image.png"),
        ],
        limits=[
            f"It finds objects of its {model.num_classes} classes and passes over all others, or takes them for one of its own.",
            f"It finds at most {model.config.queries} objects in an image, and small ones least.",
        ],
    )
