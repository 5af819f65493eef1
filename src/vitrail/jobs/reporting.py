"""report.html from a model and its answers on a split: the end of training, and `vitrail eval --out`."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from vitrail.data.bad_files import BadFile
from vitrail.data.dataset import DataSet, Split
from vitrail.data.images import PictureError
from vitrail.data.transforms import normalize, read_fitted, to_unit
from vitrail.errors import VitrailError
from vitrail.jobs.facts import later_commands
from vitrail.learn.training.state import Row
from vitrail.tasks.classify.objective import Predictions

if TYPE_CHECKING:
    from vitrail.report.interior import Interior

MEASURED = 4  # pictures that the reach of heads is a mean over


def write_page(
    path: Path,
    predictions: Predictions,
    split: Split,
    model: Any,
    *,
    labels: tuple[str, ...],
    title: str,
    headline: str,
    facts: Mapping[str, str],
    rows: Sequence[Row] = (),
    configuration: Mapping[str, Any] | None = None,
    commands: Mapping[str, str] | None = None,
    data: DataSet | None = None,
    bad: Iterable[BadFile] = (),
) -> None:
    """`predictions` are about `split`, in its order. `rows` are those of results.csv; `data` is what to sum up, `bad` what it lacks."""
    # Here, because they import matplotlib, which `vitrail eval` without --out has no use for.
    from vitrail.explain.positions import position_similarity
    from vitrail.report.classification import ClassificationReport, write_report
    from vitrail.report.data_summary import summarize
    from vitrail.report.looks import look

    indices, images = choose_some(model, predictions, split)
    report = ClassificationReport(
        title=title,
        headline=headline,
        interval=predictions.interval if len(predictions.truth) else None,
        metrics=predictions.metrics if len(predictions.truth) else {},
        facts=facts,
        history=rows,
        labels=labels,
        truth=predictions.truth,
        probabilities=predictions.probabilities.astype(np.float32),
        picture=lambda index: read_fitted(split, index, model.preprocessing),
        names=split.name,
        configuration=configuration or {},
        commands=commands or {},
        data=None if data is None else summarize(data, bad=tuple(bad)),
        looks=None if images is None else look(model, images, indices),
        interior=look_inside(model, images),
        positions=position_similarity(model, images=images),
    )
    write_report(report, path)


def choose_some(model: Any, predictions: Predictions, split: Split) -> tuple[list[int], Tensor | None]:
    """A dozen pictures, mistakes among them: their numbers, and them as the model sees them; None where there are none."""
    from vitrail.report.looks import choose_pictures

    wrong = (predictions.decisions != _as_labels(predictions)).any(axis=1)
    indices, pictures = [], []
    for index in choose_pictures(wrong).tolist():
        try:
            pictures.append(read_fitted(split, index, model.preprocessing))
        except PictureError:  # gone since it was scored
            continue
        indices.append(index)
    return indices, normalize(to_unit(np.stack(pictures)), model.preprocessing) if pictures else None


def look_inside(model: Any, images: Tensor | None) -> "Interior | None":
    """How far heads reach on some pictures, and the first filters; None where a model has neither."""
    from vitrail.explain.look import look
    from vitrail.report.interior import Interior, find_filters, mean_heads, measure_heads

    some = [] if images is None else list(images[:MEASURED, None])
    missing: dict[str, str] = {}
    heads, found = None, find_filters(model)
    try:  # one picture at a time: the weights of all layers are large
        heads = mean_heads([measure_heads(look(model, image), distance_only=True) for image in some]) if some else None
    except VitrailError as error:
        missing["how far attention reaches"] = str(error)
    if isinstance(found, str):
        missing["filters"] = found
    filters = None if isinstance(found, str) else found
    if heads is None and filters is None:
        return None
    return Interior(pictures=len(some), heads=heads, filters=filters, missing=missing)


def _as_labels(predictions: Predictions) -> np.ndarray:
    """The truth as n k booleans."""
    if predictions.multi_label:
        return predictions.truth
    return np.arange(predictions.logits.shape[1]) == predictions.truth[:, None]


def commands_for_run(folder: Path, model: Any, *, config: Path) -> dict[str, str]:
    """What to do with a finished run: what it does -> a line for the shell, or lines of Python."""
    run, lines = shlex.quote(str(folder)), attention_lines(str(folder), model)
    return {
        "Classify pictures": f"vitrail predict {run} PICTURE...",
        "See why it says so": f"vitrail explain {run} PICTURE... --out DIR",
        "Score it again": f"vitrail eval {run}",
        **({} if lines is None else {"See its attention, in Python": lines}),
        **later_commands(folder, config=config),
    }


def attention_lines(run: str, model: Any) -> str | None:
    """Python that shows a model's attention on one picture: every layer's, or a convolutional net's over places, if it has any."""
    spatial = getattr(model.config, "spatial_attention", None)
    if spatial == "none":
        return None
    look = (
        "with vt.explain.record(model) as seen:\n"
        "    scores = model(images).softmax(-1)\n"
        "print(seen.layers[-1].shape)  # pictures, heads, queries, keys; rows sum to 1"
    )
    if spatial is not None:
        look = "print(model.attention_maps(images).shape)  # pictures, maps, rows, columns; each map sums to 1"
    return (
        "from pathlib import Path\n"
        "import vitrail as vt\n"
        "from vitrail.data.images import read_picture\n"
        "from vitrail.data.transforms import prepare\n\n"
        f"model = vt.load({run!r})\n"
        'images = prepare([read_picture(Path("PICTURE"))], model.preprocessing)\n'
        f"{look}"
    )
