"""The report of a classifier, in the order people ask: mistakes, classes, calibration, attention, the data."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from vitrail.data.dataset import DataSet, Split
from vitrail.data.images import ImageError
from vitrail.data.transforms import normalize, read_fitted, to_unit
from vitrail.errors import VitrailError
from vitrail.explain.look import look as look_at
from vitrail.explain.positions import position_similarity
from vitrail.learn.metrics.calibration import binary_calibration, calibration
from vitrail.learn.metrics.confusion import class_scores, confusion_matrix
from vitrail.learn.metrics.multilabel import average_precision, label_scores
from vitrail.learn.training.state import Row
from vitrail.models.classifier import Classifier
from vitrail.report.confusions import NUMBERED_CLASSES, confusion_section
from vitrail.report.page import Section
from vitrail.tasks.classify.classified import Classified
from vitrail.tasks.classify.doubted import DoubtedLabels
from vitrail.tasks.classify.objective import Predictions
from vitrail.tasks.classify.report_attention import choose_images, look
from vitrail.tasks.classify.report_calibration import show_calibration
from vitrail.tasks.classify.report_classes import show_classes
from vitrail.tasks.classify.report_data import show_data, summarize
from vitrail.tasks.classify.report_interior import (
    Interior,
    find_filters,
    mean_heads,
    measure_heads,
    show_interior,
    show_positions,
)
from vitrail.tasks.classify.report_labels import show_doubted
from vitrail.tasks.classify.report_samples import show_best, show_looks, show_pairs, show_unsure, show_worst
from vitrail.tasks.stages import Scored, Setup

MEASURED = 4  # images that the reach of heads is a mean over


def sections(scored: Scored[DataSet], setup: Setup[Any, DataSet, Any], rows: Sequence[Row]) -> Iterable[Section]:
    found, model, split = scored.evaluation, scored.model, scored.data.splits[scored.split]  # type: ignore[index]
    assert isinstance(found, Predictions)
    indices, images = choose_some(model, found, split)
    yield from show_classified(
        Classified(
            labels=scored.data.classes,
            targets=found.truth,
            probabilities=found.probabilities.astype(np.float32),
            image=lambda index: read_fitted(split, index, model.preprocessing),
            names=split.name,
            doubted=show_doubted(scored.extras, model.preprocessing) if isinstance(scored.extras, DoubtedLabels) else None,
            data=summarize(setup.data, bad=() if setup.bad is None else tuple(setup.bad.files.values())),
            looks=None if images is None else look(model, images, indices),
            interior=look_inside(model, images),
            positions=position_similarity(model, images=images),
        )
    )


def show_classified(shown: Classified) -> Iterator[Section]:
    if not shown.count:
        yield Section("Score", note="There were no images to score.")
    elif shown.multi_label:
        yield from show_several_labels(shown)
    else:
        yield from show_one_label(shown)
    if shown.count and shown.looks is not None:
        yield show_looks(shown, shown.looks)
    if shown.interior is not None:
        yield show_interior(shown.interior)
    if shown.positions is not None:
        yield show_positions(shown.positions)
    if shown.data is not None:
        yield show_data(shown.data, shown.labels)


def show_one_label(shown: Classified) -> Iterator[Section]:
    matrix = confusion_matrix(shown.targets, shown.predicted, len(shown.labels))
    note = "Each row is a true class, each column a predicted class; the diagonal is correct."
    note += " The numbers count images." if len(shown.labels) <= NUMBERED_CLASSES else ""
    yield confusion_section(matrix, shown.labels, counted="images", note=note)
    yield from show_pairs(shown, matrix)
    yield show_classes(shown.labels, class_scores(shown.targets, shown.predicted, len(shown.labels)))
    if shown.doubted is not None:
        yield shown.doubted
    yield show_worst(shown)
    yield show_unsure(shown)
    yield show_best(shown)
    yield show_calibration(calibration(shown.probabilities, shown.targets), several=False)


def show_several_labels(shown: Classified) -> Iterator[Section]:
    precisions = average_precision(shown.probabilities, shown.targets)
    yield show_classes(shown.labels, label_scores(shown.predicted, shown.targets), precisions)
    yield show_worst(shown)
    yield show_unsure(shown)
    yield show_best(shown)
    yield show_calibration(binary_calibration(shown.probabilities, shown.targets), several=True)


def commands(run: str, model: Classifier) -> Mapping[str, str]:
    """What to do with a run: what it does -> a line for the shell, or lines of Python. `run` is quoted."""
    lines = attention_lines(shlex.split(run)[0], model)
    return {
        "Classify images": f"vitrail predict {run} IMAGE...",
        "See why it predicts that": f"vitrail explain {run} IMAGE... --out DIR",
        "Score it again": f"vitrail eval {run}",
        **({} if lines is None else {"See its attention, in Python": lines}),
    }


def choose_some(model: Classifier, predictions: Predictions, split: Split) -> tuple[list[int], Tensor | None]:
    """A dozen images, mistakes among them: their numbers, and them as the model sees them; None where there are none."""
    wrong = (predictions.decisions != as_labels(predictions)).any(axis=1)
    indices, images = [], []
    for index in choose_images(wrong).tolist():
        try:
            images.append(read_fitted(split, index, model.preprocessing))
        except ImageError:  # gone since it was scored
            continue
        indices.append(index)
    return indices, normalize(to_unit(np.stack(images)), model.preprocessing) if images else None


def look_inside(model: Classifier, images: Tensor | None) -> Interior | None:
    """How far heads reach on some images, and the first filters; None where a model has neither."""
    some = [] if images is None else list(images[:MEASURED, None])
    missing: dict[str, str] = {}
    heads, found = None, find_filters(model)
    try:  # one image at a time: the weights of all layers are large
        heads = mean_heads([measure_heads(look_at(model, image), distance_only=True) for image in some]) if some else None
    except VitrailError as error:
        missing["how far attention reaches"] = str(error)
    if isinstance(found, str):
        missing["filters"] = found
    filters = None if isinstance(found, str) else found
    if heads is None and filters is None:
        return None
    return Interior(images=len(some), heads=heads, filters=filters, missing=missing)


def as_labels(predictions: Predictions) -> np.ndarray:
    """The labels as n k booleans."""
    if predictions.multi_label:
        return predictions.truth
    return np.arange(predictions.logits.shape[1]) == predictions.truth[:, None]


def attention_lines(run: str, model: Classifier) -> str | None:
    """Python that shows a model's attention on one image: every layer's, or a convolutional net's over places, if it has any."""
    spatial = getattr(model.config, "spatial_attention", None)
    if spatial == "none":
        return None
    lines = (
        "with vt.explain.record(model) as seen:\n"
        "    scores = model(images).softmax(-1)\n"
        "print(seen.layers[-1].shape)  # images, heads, queries, keys; rows sum to 1"
    )
    if spatial is not None:
        lines = "print(model.attention_maps(images).shape)  # images, maps, rows, columns; each map sums to 1"
    return (
        "from pathlib import Path\n"
        "import vitrail as vt\n"
        "from vitrail.data.images import read_image\n"
        "from vitrail.data.transforms import prepare\n\n"
        f"model = vt.load({run!r})\n"
        'images = prepare([read_image(Path("IMAGE"))], model.preprocessing)\n'
        f"{lines}"
    )
