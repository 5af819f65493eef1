"""Classifying files: `vitrail predict` with a classifier, or a cascade of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vitrail.data.inputs import expand, open_or_error
from vitrail.deploy.cascade_folder import as_cascade
from vitrail.deploy.pipeline import Answer, ImageClassification
from vitrail.deploy.predicted_files import Predicted, failure
from vitrail.errors import VitrailError
from vitrail.models.catalogue import rebuild_merging
from vitrail.models.folder import load
from vitrail.tasks.classify.options import PredictOptions

WIDEST = 60  # letters of a path in a table


def predict(run: str, inputs: list[str], options: PredictOptions) -> Iterator[Predicted]:
    """The likeliest classes of each image; one that cannot be read gives its error instead."""
    paths = expand(inputs)
    width = min(WIDEST, max(len(str(path)) for path in paths))
    found = predict_files(run, paths, top_k=options.top_k, engine=options.engine, merge=options.merge)
    for path, result in found:
        if isinstance(result, VitrailError):
            yield failure(result)
            continue
        words = "   ".join(f"{row['label']} {100 * row['score']:5.1f} %" for row in result)
        yield Predicted(result, f"{path!s:<{width}}  {words}")


def predict_files(
    run: str, paths: list[Path], *, top_k: int = 5, batch: int = 32, engine: str = "torch", merge: int | None = None
) -> Iterator[tuple[Path, Answer | VitrailError]]:
    """A result for each image, or its error; the rest goes on."""
    classify: Any = as_cascade(run, engine=engine)
    if classify is None:
        classify = ImageClassification(rebuild_merging(load(run), merge), engine=engine)
    elif merge is not None:
        raise VitrailError(f"--merge {merge}: the models of a cascade merge tokens as they were made")
    for start in range(0, len(paths), batch):
        group = [(path, open_or_error(path, classify.model.preprocessing.size)) for path in paths[start : start + batch]]
        results = iter(classify([image for _, image in group if not isinstance(image, VitrailError)], top_k=top_k))
        for path, image in group:
            yield path, image if isinstance(image, VitrailError) else next(results)
