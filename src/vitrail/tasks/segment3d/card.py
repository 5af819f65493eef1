"""What the card of a model says that labels the voxels of volumes."""

from collections.abc import Iterable

from vitrail.models.catalogue import count_parameters
from vitrail.models.markdown import block, literal, plain
from vitrail.models.volume_segmenter import VolumeSegmenter
from vitrail.tasks.card import FOLDER, Card, use_python, use_shell


def describe_volumes(model: VolumeSegmenter) -> Card:
    return Card(
        title="segmentation of volumes",
        about=list(describe_model(model)),
        use=[
            use_shell(f"vitrail predict {FOLDER} scan.nii.gz --out labels/"),
            use_python(f'model = vt.load("{FOLDER}")', "logits = model(volumes)  # (b, 1, x, y, z) to (b, classes, x, y, z)"),
        ],
        limits=[
            "No medical device: what it labels is to be looked at by somebody who could label it.",
            "Another scanner, contrast, age or illness than it was trained on may make its labels worthless without any sign of it.",
        ],
    )


def describe_model(model: VolumeSegmenter) -> Iterable[str]:
    config = model.config
    x, y, z = model.image_size
    yield (
        f"A model of the Vitrail library: {count_parameters(model):,} parameters, a label for each voxel of a volume of any size, which it "
        f"looks at in windows of {x} x {y} x {z} voxels (x to the right, y to the front, z up)."
    )
    edges = (
        "as they come" if config.spacing is None else f"resampled to {' x '.join(f'{edge:g}' for edge in config.spacing)} mm"
    )
    scale = (
        "by each volume's own percentiles" if config.window is None else f"from {config.window[0]:g} to {config.window[1]:g}"
    )
    yield f"Architecture {literal(model.architecture)}. The library turns volumes to RAS+ by itself; voxels are {edges}, intensities {scale} become 0 to 1."
    if model.labels is not None:
        values = config.values or tuple(range(model.num_classes))
        yield "## Labels"
        yield block([f"{value:>3}  {plain(label)}" for value, label in zip(values, model.labels, strict=True)], "text")
        if config.largest:
            names = ", ".join(plain(model.labels[number]) for number in config.largest)
            yield f"Of {names} the library keeps only the largest part in one piece; an exported file leaves that to whoever runs it."
