"""Segmenting files: `vitrail predict` with a segmenter."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vitrail.data.images import PictureError
from vitrail.deploy.pipeline import Answer
from vitrail.deploy.segmentation import ImageSegmentation, Segmented
from vitrail.errors import VitrailError
from vitrail.models.folder import load

MASK, OVERLAY = "_mask.png", "_overlay.png"


def predict_masks(
    run: str, paths: list[Path], *, top_k: int, out: str | None, engine: str = "torch", merge: int | None = None
) -> Iterator[tuple[Path, Answer | VitrailError]]:
    """The classes of each picture, the largest first, and with `out` two files a picture; one that cannot be read gives its error."""
    if engine != "torch" or merge is not None:
        wish = f"--engine {engine}" if engine != "torch" else f"--merge {merge}"
        raise VitrailError(f"{wish} is for classifiers: {run} is a segmenter")
    segment = ImageSegmentation(load(run))
    folder = None if out is None else Path(out).expanduser()
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise VitrailError(f"--out {out}: no folder can be made there ({error.strerror})") from None
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
    """Label, score and share of the pixels of each class in a picture."""
    parts = segment.parts(found)
    pixels = found.numbers.size
    return [{"label": part["label"], "score": part["score"], "share": part["mask"].histogram()[255] / pixels} for part in parts]


def free_stem(path: Path, taken: set[str]) -> str:
    """The file's name without its ending; numbered where another picture of this command has it."""
    name, number = path.stem, 1
    while name in taken:
        number += 1
        name = f"{path.stem}_{number}"
    taken.add(name)
    return name
