"""The report of a classifier: mistakes, classes, calibration, attention, the data."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from vitrail.data.dataset import DataSet, Split
from vitrail.data.images import PictureError
from vitrail.data.transforms import normalize, read_fitted, to_unit
from vitrail.errors import VitrailError
from vitrail.explain.look import look as look_at
from vitrail.explain.positions import position_similarity
from vitrail.report.classification import ClassificationReport, write_report
from vitrail.report.data_summary import summarize
from vitrail.report.frame import Frame
from vitrail.report.looks import choose_pictures, look
from vitrail.tasks.classify.objective import Predictions
from vitrail.tasks.task import Scored, Setup

if TYPE_CHECKING:
    from vitrail.report.interior import Interior

MEASURED = 4  # images that the reach of heads is a mean over


def write(path: Path, scored: Scored[DataSet], setup: Setup[Any, DataSet, Any], frame: Frame) -> None:
    """report.html, in the order people ask: the score, what goes wrong, why, the data, the options."""
    found, model, split = scored.evaluation, scored.model, scored.data.splits[scored.split]  # type: ignore[index]
    assert isinstance(found, Predictions)
    indices, images = choose_some(model, found, split)
    report = ClassificationReport(
        title=frame.title,
        headline=frame.headline,
        certainty=frame.certainty,
        numbers=frame.numbers if len(found.truth) else {},
        facts=frame.details,
        history=frame.rows,
        labels=scored.data.classes,
        truth=found.truth,
        probabilities=found.probabilities.astype(np.float32),
        picture=lambda index: read_fitted(split, index, model.preprocessing),
        names=split.name,
        configuration=frame.configuration,
        commands=frame.commands,
        data=summarize(setup.data, bad=() if setup.bad is None else tuple(setup.bad.files.values())),
        looks=None if images is None else look(model, images, indices),
        interior=look_inside(model, images),
        positions=position_similarity(model, images=images),
    )
    write_report(report, path)


def commands(run: str, model: Any) -> Mapping[str, str]:
    """What to do with a run: what it does -> a line for the shell, or lines of Python. `run` is quoted."""
    lines = attention_lines(shlex.split(run)[0], model)
    return {
        "Classify images": f"vitrail predict {run} IMAGE...",
        "See why it predicts that": f"vitrail explain {run} IMAGE... --out DIR",
        "Score it again": f"vitrail eval {run}",
        **({} if lines is None else {"See its attention, in Python": lines}),
    }


def choose_some(model: Any, predictions: Predictions, split: Split) -> tuple[list[int], Tensor | None]:
    """A dozen images, mistakes among them: their numbers, and them as the model sees them; None where there are none."""
    wrong = (predictions.decisions != as_labels(predictions)).any(axis=1)
    indices, images = [], []
    for index in choose_pictures(wrong).tolist():
        try:
            images.append(read_fitted(split, index, model.preprocessing))
        except PictureError:  # gone since it was scored
            continue
        indices.append(index)
    return indices, normalize(to_unit(np.stack(images)), model.preprocessing) if images else None


def look_inside(model: Any, images: Tensor | None) -> "Interior | None":
    """How far heads reach on some images, and the first filters; None where a model has neither."""
    from vitrail.report.interior import Interior, find_filters, mean_heads, measure_heads

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
    return Interior(pictures=len(some), heads=heads, filters=filters, missing=missing)


def as_labels(predictions: Predictions) -> np.ndarray:
    """The labels as n k booleans."""
    if predictions.multi_label:
        return predictions.truth
    return np.arange(predictions.logits.shape[1]) == predictions.truth[:, None]


def attention_lines(run: str, model: Any) -> str | None:
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
        "from vitrail.data.images import read_picture\n"
        "from vitrail.data.transforms import prepare\n\n"
        f"model = vt.load({run!r})\n"
        'images = prepare([read_picture(Path("IMAGE"))], model.preprocessing)\n'
        f"{lines}"
    )
