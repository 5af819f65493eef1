"""Segmenting files: `vitrail predict` with a segmenter."""

from collections.abc import Iterator
from typing import Any

from vitrail.data.images import PictureError
from vitrail.data.inputs import expand
from vitrail.deploy.predicted_files import Predicted, failure, free_stem, open_folder
from vitrail.deploy.segmentation import ImageSegmentation, Segmented
from vitrail.models.folder import load
from vitrail.tasks.segment.options import PredictOptions

MASK, OVERLAY = "_mask.png", "_overlay.png"
WIDEST = 60  # columns for the name of a file


def predict(run: str, inputs: list[str], options: PredictOptions) -> Iterator[Predicted]:
    """The classes of each image, the largest first, and with --out two files per image."""
    paths = expand(inputs)
    segment = ImageSegmentation(load(run), engine=options.engine)
    folder = open_folder(options.out)
    taken: set[str] = set()
    width = min(WIDEST, max(len(str(path)) for path in paths))
    for path in paths:
        try:
            found = segment.segment(path)
        except PictureError as error:
            yield failure(error)
            continue
        parts = describe_parts(segment, found)[: options.top_k]
        if folder is not None:
            name = free_stem(path, taken)
            segment.mask_file(found).save(folder / (name + MASK))
            segment.overlay(found).save(folder / (name + OVERLAY))
            files = {"mask": str(folder / (name + MASK)), "overlay": str(folder / (name + OVERLAY))}
            parts = [row | files for row in parts]
        words = "   ".join(f"{row['label']} {100 * row['share']:5.1f} %" for row in parts)
        yield Predicted(parts, f"{path!s:<{width}}  {words}")


def describe_parts(segment: ImageSegmentation, found: Segmented) -> list[dict[str, Any]]:
    """Label, score, number in masks and share of the pixels of each class in an image."""
    pixels = found.numbers.size
    return [
        {name: part[name] for name in ("label", "score", "value")} | {"share": part["mask"].histogram()[255] / pixels}
        for part in segment.parts(found)
    ]
