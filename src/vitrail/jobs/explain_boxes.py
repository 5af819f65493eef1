"""Explaining where a detector looks: `vitrail explain` on a run that finds objects."""

from pathlib import Path
from typing import Any

import numpy as np

from vitrail.data.examples import spread
from vitrail.data.images import read_picture
from vitrail.data.transforms import prepare
from vitrail.errors import VitrailError
from vitrail.explain.boxes import look_at_boxes
from vitrail.explain.record import choose
from vitrail.jobs.detection_scores import labels_of
from vitrail.jobs.options import ExplainOptions
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load
from vitrail.report.explained_boxes import ExplainedPicture, write_looks
from vitrail.tasks.classify.explain import Done, Progress, check_out, check_target, each_file, refuse_options
from vitrail.tasks.classify.predict import expand
from vitrail.tasks.detect import usual_threshold

MOST = 5  # boxes of a picture
NOT_HERE = {
    "method": "auto",
    "query": None,
    "word": None,
    "voxel": None,
}  # options that say nothing of boxes, and what asks for nothing


def explain_boxes(
    run: str, words: list[str], options: ExplainOptions, *, progress: Progress = lambda done, total: None
) -> Done:
    """index.html and its maps in a new folder: the surest boxes of each picture, or those of one class, or one by its number."""
    refuse_options(options, NOT_HERE, "a detector", "its boxes are explained by attention; --box and --target choose them")
    out, paths, model = check_out(options.out), expand(words), load(run).eval()
    labels = labels_of(model)
    check_target(options.target, labels)
    layer, head = choose_layer(model, options)
    chosen = [paths[number] for number in spread(len(paths), options.limit)]
    errors: list[str] = []
    shown = each_file(chosen, lambda path: explain_picture(model, path, labels, options), errors, progress)
    out.mkdir(parents=True, exist_ok=True)
    height, width = model.image_size
    facts = {
        "Model": f"{model.architecture}, {count_parameters(model):,} parameters",
        "It sees": f"{width}×{height} pixels, all of a picture",
        "Queries": f"{model.config.queries}",
    }
    title = f"{Path(run).name or run}: where it looks for objects"
    page = write_looks(title, facts, shown, labels, unread=errors, out=out, layer=layer, head=head)
    return Done(page=page, pictures=len(shown), found=len(paths), method="attention", errors=tuple(errors))


def choose_layer(model: Any, options: ExplainOptions) -> tuple[int | None, int | None]:
    """Block of the decoder and head counted from 0; both exist."""
    blocks = model.config.decoder_depth
    layer = None if options.layer is None else choose([options.layer], blocks, "layer", "the decoder")[0]
    if options.head is not None and not isinstance(options.head, int):
        raise VitrailError(f"--head {options.head}: of a box each head is shown, and their mean; give a number")
    head = None if options.head is None else choose([options.head], model.config.heads, "head", "the decoder")[0]
    return layer, head


def explain_picture(model: Any, path: Path, labels: tuple[str, ...], options: ExplainOptions) -> ExplainedPicture:
    """The picture's boxes by score; where one is asked for by its number, or by its class, none is too unsure."""
    picture = read_picture(path)
    asked = options.box is not None or options.target is not None
    threshold = 0.0 if asked else usual_threshold(model.config)
    looks = look_at_boxes(model, prepare([picture], model.preprocessing), threshold=threshold, most=model.config.queries)
    if options.target is not None:
        looks = [look for look in looks if labels[look.label] == options.target]
    if options.box is not None:
        looks = [looks[choose([options.box], len(looks), "box", str(path))[0]]]
    return ExplainedPicture(name=str(path), picture=np.asarray(picture.convert("RGB")), looks=looks[:MOST])
