"""vitrail import"""

from typing import Annotated

from cyclopts import Parameter

from vitrail.tasks.options import several, whole

EXAMPLES = """Examples:

  vitrail import google/vit-base-patch16-224 --out models/vit
  vitrail import downloads/deit_small.pth --out models/deit --num-classes 10
  vitrail import weights/B_16.npz --out models/b16 --image-size 384
  vitrail import facebook/dinov2-small --out models/dino --in-channels 1
  vitrail import runs/classify/pets --out models/wide --image-size 160 240

then vitrail predict models/vit image.png, or vitrail train --weights models/deit --data images/ for classes of your own.
Of a pickle (.pth, .pt, .bin, .ckpt) tensors are read and nothing is run.
"""


def import_weights(
    source: Annotated[str, Parameter(help="A file, a folder or a hub id, of timm, transformers, Google, Meta or of ours.")],
    /,
    *,
    out: Annotated[str, Parameter(help="The model folder to write.")],
    image_size: Annotated[
        tuple[int, ...] | None,
        several("N, or H W, in pixels: positions are resized."),
    ] = None,
    patch: Annotated[int | None, Parameter(converter=whole, help="Side of the patches: their filters are resampled.")] = None,
    in_channels: Annotated[int | None, Parameter(converter=whole, help="Channels of the images, such as 1 for gray.")] = None,
    num_classes: Annotated[
        int | None, Parameter(converter=whole, help="Classes of a new, untrained head; 0 for features.")
    ] = None,
    heads: Annotated[
        int | None, Parameter(converter=whole, help="Heads of each block, where no config.json says it: shapes do not tell.")
    ] = None,
    model: Annotated[str | None, Parameter(help="A name of vitrail models that the weights must fit.")] = None,
    revision: Annotated[str | None, Parameter(help="Branch, tag or commit of a hub id.")] = None,
) -> None:
    """Make a model folder of weights from elsewhere.

    Whose they are is seen by their names. What had to be supposed or changed is reported line by line, and where they come from is kept.
    """
    from vitrail.models.catalogue import count_parameters
    from vitrail.models.protocols import HasClasses
    from vitrail.run.import_weights import import_weights

    done = import_weights(
        source, out, image_size=image_size, patch=patch, in_channels=in_channels, num_classes=num_classes, heads=heads,
        model=model, revision=revision,
    )  # fmt: skip
    for note in done.notes:
        print(f"  {note}")
    found = done.model
    height, width = found.image_size
    classes = found.num_classes if isinstance(found, HasClasses) else 0
    head = f"{classes} classes" if classes else "features"
    shape = f"{height}x{width}x{found.config.in_channels}"
    print(f"{found.architecture}: {count_parameters(found):,} parameters, images {shape}, {head}")
    print(f"written to {done.folder}")
    if classes:
        print(f"next: vitrail predict {done.folder} image.png")
    else:
        print(f"next: vitrail train --weights {done.folder} --data FOLDER")
