"""Segmenting files: `vitrail predict` with a segmenter."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vitrail.data.images import PictureError
from vitrail.deploy.pipeline import Answer
from vitrail.deploy.predicted_files import free_stem, open_folder, refuse_merging
from vitrail.deploy.segmentation import ImageSegmentation, Segmented
from vitrail.errors import VitrailError
from vitrail.models.folder import load

MASK, OVERLAY = "_mask.png", "_overlay.png"


def predict_masks(
    run: str, paths: list[Path], *, top_k: int, out: str | None, engine: str = "torch", merge: int | None = None
) -> Iterator[tuple[Path, Answer | VitrailError]]:
    """The classes of each picture, the largest first, and with `out` two files a picture; one that cannot be read gives its error."""
    refuse_merging(run, kind="a segmenter", merge=merge)
    segment = ImageSegmentation(load(run), engine=engine)
    folder = open_folder(out)
    taken: set[str] = set()
    for path in paths:
        try:
            found = segment.segment(path)
        except PictureError as error:
            yield path, error
            continue
        answer = describe_parts(segment, found)[:top_k]
        if folder is not None:
            name = free_stem(path, taken)
            segment.mask_file(found).save(folder / (name + MASK))
            segment.overlay(found).save(folder / (name + OVERLAY))
            files = {"mask": str(folder / (name + MASK)), "overlay": str(folder / (name + OVERLAY))}
            answer = [row | files for row in answer]
        yield path, answer


def describe_parts(segment: ImageSegmentation, found: Segmented) -> list[dict[str, Any]]:
    """Label, score, number in masks and share of the pixels of each class in a picture."""
    pixels = found.numbers.size
    return [
        {name: part[name] for name in ("label", "score", "value")} | {"share": part["mask"].histogram()[255] / pixels}
        for part in segment.parts(found)
    ]
