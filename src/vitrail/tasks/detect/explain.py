"""Explaining where a detector looks: `vitrail explain` with a run that finds objects."""

from pathlib import Path
from typing import Any

import numpy as np

from vitrail.data.examples import spread
from vitrail.data.images import read_picture
from vitrail.data.inputs import expand
from vitrail.data.transforms import prepare
from vitrail.explain.boxes import look_at_boxes
from vitrail.explain.files import Done, Progress, check_out, check_target, each_file
from vitrail.explain.record import choose
from vitrail.models.catalogue import count_parameters
from vitrail.models.detr import usual_threshold
from vitrail.models.folder import load
from vitrail.tasks.detect.data import labels_of
from vitrail.tasks.detect.explain_page import ExplainedImage, write_looks
from vitrail.tasks.detect.options import ExplainOptions

MOST = 5  # boxes of an image


def explain(run: str, inputs: list[str], options: ExplainOptions, *, progress: Progress = lambda done, total: None) -> Done:
    """index.html and its maps in a new folder: the boxes of each image with the highest scores, or those of one class, or one by its
    number."""
    out, paths, model = check_out(options.out), expand(inputs), load(run).eval()
    labels = labels_of(model)
    check_target(options.target, labels)
    layer, head = choose_layer(model, options)
    chosen = [paths[number] for number in spread(len(paths), options.limit)]
    errors: list[str] = []
    shown = each_file(chosen, lambda path: explain_image(model, path, labels, options), errors, progress)
    out.mkdir(parents=True, exist_ok=True)
    height, width = model.image_size
    details = {
        "Model": f"{model.architecture}, {count_parameters(model):,} parameters",
        "It sees": f"{width}×{height} pixels, all of an image",
        "Queries": f"{model.config.queries}",
    }
    title = f"{Path(run).name or run}: where it looks for objects"
    page = write_looks(title, details, shown, labels, unread=errors, out=out, layer=layer, head=head)
    return Done(page=page, pictures=len(shown), found=len(paths), method="attention", errors=tuple(errors))


def choose_layer(model: Any, options: ExplainOptions) -> tuple[int | None, int | None]:
    """Block of the decoder and head counted from 0; both exist."""
    blocks, heads = model.config.decoder_depth, model.config.heads
    layer = None if options.layer is None else choose([options.layer], blocks, "layer", "the decoder")[0]
    head = None if options.head is None else choose([options.head], heads, "head", "the decoder")[0]
    return layer, head


def explain_image(model: Any, path: Path, labels: tuple[str, ...], options: ExplainOptions) -> ExplainedImage:
    """The image's boxes by score; where one is asked for by its number, or by its class, no score is too low."""
    image = read_picture(path)
    asked = options.box is not None or options.target is not None
    threshold = 0.0 if asked else usual_threshold(model.config)
    looks = look_at_boxes(model, prepare([image], model.preprocessing), threshold=threshold, most=model.config.queries)
    if options.target is not None:
        looks = [look for look in looks if labels[look.label] == options.target]
    if options.box is not None:
        looks = [looks[choose([options.box], len(looks), "box", str(path))[0]]]
    return ExplainedImage(name=str(path), image=np.asarray(image.convert("RGB")), looks=looks[:MOST])
