"""Classifying files: `vitrail predict`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vitrail.data.inputs import expand, open_or_error
from vitrail.deploy.cascade_folder import as_cascade
from vitrail.deploy.pipeline import Answer, ImageClassification
from vitrail.errors import VitrailError
from vitrail.models.catalogue import rebuild_merging
from vitrail.models.folder import load

__all__ = ["expand", "open_or_error", "predict"]


def predict(
    run: str, paths: list[Path], *, top_k: int = 5, batch: int = 32, engine: str = "torch", merge: int | None = None
) -> Iterator[tuple[Path, Answer | VitrailError]]:
    """An answer a picture; one that cannot be read gives its error instead, and the rest goes on."""
    classify: Any = as_cascade(run, engine=engine)
    if classify is None:
        classify = ImageClassification(rebuild_merging(load(run), merge), engine=engine)
    elif merge is not None:
        raise VitrailError(f"--merge {merge}: the models of a cascade merge tokens as they were made")
    for start in range(0, len(paths), batch):
        group = [(path, open_or_error(path, classify.model.preprocessing.size)) for path in paths[start : start + batch]]
        answers = iter(classify([picture for _, picture in group if not isinstance(picture, VitrailError)], top_k=top_k))
        for path, picture in group:
            yield path, picture if isinstance(picture, VitrailError) else next(answers)
