"""The report of a segmenter: images beside masks and predictions, the numbers of each class, and which are confused.

A function makes a section of what there is to show, none where there is nothing; SECTIONS is their order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from vitrail.data.class_colors import Color, choose_colors
from vitrail.data.dataset import DataSet
from vitrail.data.mask_painting import NOTHING, paint_over
from vitrail.learn.metrics.confusion import confusion_shares, matrix_scores
from vitrail.learn.training.state import Row
from vitrail.models.segmenter import Segmenter
from vitrail.report.confusions import confusion_section
from vitrail.report.images import encode_image, is_small
from vitrail.report.page import Content, Section, templates_of
from vitrail.report.parts import Bar, Cell, ClassName, Label, Legend, Photograph, SortableTable, percent
from vitrail.tasks.segment.data import labels_of
from vitrail.tasks.segment.objective import Segmentations, SegmentedExample
from vitrail.tasks.stages import Scored, Setup

FEW = 30  # classes up to which the table needs no box to search it
LARGEST = 320  # pixels of the longer side of an image


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the sections are made of."""

    found: Segmentations
    labels: tuple[str, ...]
    colors: Sequence[Color] | None = None

    @property
    def palette(self) -> Sequence[Color]:
        return self.colors or choose_colors(self.labels)


def sections(scored: Scored[DataSet], setup: Setup[Any, DataSet, Any], rows: Sequence[Row]) -> Iterable[Section]:
    """Images, classes, confusions, before the curves of training."""
    found, model = scored.evaluation, scored.model
    assert isinstance(found, Segmentations)
    yield from show_segmentations(Shown(found=found, labels=labels_of(model), colors=model.colors))


def commands(run: str, model: Segmenter) -> Mapping[str, str]:
    """What to do with a run: what it does -> a line for the shell. `run` is quoted."""
    return {
        "Segment images": f"vitrail predict {run} IMAGE... --out DIR",
        "Score it again, mirrored and at three sizes": f"vitrail eval {run} --flip-test --scales 0.75 1 1.25",
    }


def show_segmentations(shown: Shown) -> list[Section]:
    return [replace(made, first=True) for show in SECTIONS for made in show(shown)]


def show_images(shown: Shown) -> list[Section]:
    """The first of the split, in its order."""
    if not shown.found.examples:
        return [Section("Images", note="There were no images to segment.")]
    note = "The image, its mask, and the prediction; gray in a mask is of no class."
    return [Section("Images", [show_legend(shown), show_rows(shown, shown.found.examples)], note=note)]


def show_worst(shown: Shown) -> list[Section]:
    if len(shown.found.rows) <= len(shown.found.examples):
        return []
    note = "Those with the lowest mean IoU over their own classes, the lowest first."
    return [Section("Worst images", [show_legend(shown), show_rows(shown, shown.found.worst)], note=note)]


def show_legend(shown: Shown) -> Legend:
    """A square of its color before each class that occurs, in masks or predictions."""
    met = np.flatnonzero(shown.found.matrix.sum(0) + shown.found.matrix.sum(1))
    entries = [ClassName(shown.labels[number], shown.palette[number]) for number in met.tolist()]
    if any((example.truth < 0).any() for example in (*shown.found.examples, *shown.found.worst)):
        entries.append(ClassName("no class", NOTHING))
    return Legend(entries)


def show_rows(shown: Shown, examples: Sequence[SegmentedExample]) -> Content:
    rows = []
    for example in examples:
        name = PurePosixPath(example.name).name
        panes = [
            (Photograph(encode_image(pane, largest=LARGEST), f"{words} of {name}", pixelated=is_small(pane)), words)
            for words, pane in draw_panes(shown, example).items()
        ]
        rows.append((Label(name, columns=48), f"mean IoU {percent(example.score)}", panes))
    return templates_of(__file__).render("examples.html", examples=rows)


def draw_panes(shown: Shown, example: SegmentedExample) -> dict[str, np.ndarray]:
    """Image, mask and prediction, to stand side by side."""
    return {
        "image": np.broadcast_to(example.image, (*example.image.shape[:2], 3)),
        "mask": paint_over(example.image, example.truth, shown.palette),
        "prediction": paint_over(example.image, example.predicted, shown.palette),
    }


def show_classes(shown: Shown) -> list[Section]:
    """A row for each class, the lowest IoU first."""
    found, scores = shown.found, matrix_scores(shown.found.matrix)
    columns = {"IoU": found.iou, "recall": scores.recall, "precision": scores.precision}
    if not np.isnan(found.boundary).all():
        columns["boundary F"] = found.boundary
    share = scores.support / max(1, int(scores.support.sum()))
    order = np.argsort(np.where(np.isnan(found.iou), np.inf, found.iou), kind="stable")
    rows = [
        (
            Cell(ClassName(shown.labels[k], shown.palette[k]), shown.labels[k]),
            Cell(percent(float(share[k])), float(share[k])),
            *(Cell(Bar(float(values[k])), float(values[k])) for values in columns.values()),
        )
        for k in order.tolist()
    ]
    many = "classes" if len(rows) > FEW else ""
    head = ("Class", "of all pixels", *columns)
    made = SortableTable(head, rows, ordered=(2, "ascending"), filtered=many, card="card classes")
    note = (
        "IoU: pixels that are and are called so, of those that are or are called so. Boundary F: how much of the edges lies within two "
        "pixels of each other. The lowest IoU first; a click on a column sorts by it."
    )
    return [Section("Classes", [made], note=note)]


def show_confusions(shown: Shown) -> list[Section]:
    matrix, labels = shown.found.matrix, shown.labels
    if not matrix.sum():
        return []
    # A count of millions of pixels does not fit a cell.
    drawn = np.nan_to_num(1000 * confusion_shares(matrix)).round().astype(np.int64)
    note = "Each row is a true class, each column a predicted class, in thousandths of the true class's pixels; the diagonal is correct."
    return [confusion_section(matrix, labels, counted="pixels", note=note, drawn=drawn)]


SECTIONS: tuple[Callable[[Shown], list[Section]], ...] = (show_images, show_classes, show_worst, show_confusions)
