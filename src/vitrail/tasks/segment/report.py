"""The report of a segmenter: images beside masks and predictions, the numbers of each class, and which are confused.

A section is a function from what there is to show to markup, none where there is nothing; SECTIONS is their order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from vitrail.data.class_colors import Color, choose_colors
from vitrail.data.dataset import DataSet
from vitrail.data.mask_painting import NOTHING, paint_over
from vitrail.learn.metrics.confusion import confusion_shares, frequent_confusions, matrix_scores
from vitrail.report.class_legend import show_class
from vitrail.report.figures import draw_confusion, to_svg
from vitrail.report.frame import Frame, write_framed
from vitrail.report.matrix import DRAWN_CLASSES
from vitrail.report.page import (
    Cell,
    Markup,
    bar,
    drawing,
    element,
    join,
    label,
    percent,
    photograph,
    section,
    sortable_table,
    table,
)
from vitrail.report.pictures import encode_picture, is_small
from vitrail.tasks.segment.data import labels_of
from vitrail.tasks.segment.objective import Segmentations, SegmentedExample
from vitrail.tasks.task import Scored, Setup

CONFUSIONS = 12
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


def write(path: Path, scored: Scored[DataSet], setup: Setup[Any, DataSet, Any], frame: Frame) -> None:
    """report.html: images, classes, confusions, then how it was trained."""
    found, model = scored.evaluation, scored.model
    assert isinstance(found, Segmentations)
    write_framed(path, frame, first=show_segmentations(Shown(found=found, labels=labels_of(model), colors=model.colors)))


def commands(run: str, model: Any) -> Mapping[str, str]:
    """What to do with a run: what it does -> a line for the shell. `run` is quoted."""
    return {
        "Segment images": f"vitrail predict {run} IMAGE... --out DIR",
        "Score it again, mirrored and at three sizes": f"vitrail eval {run} --flip-test --scales 0.75 1 1.25",
    }


def show_segmentations(shown: Shown) -> list[Markup]:
    return [made for show in SECTIONS for made in show(shown)]


def show_images(shown: Shown) -> list[Markup]:
    """The first of the split, in its order."""
    if not shown.found.examples:
        return [section("Images", note="There were no images to segment.")]
    note = "The image, its mask, and the prediction; gray in a mask is of no class."
    return [section("Images", show_legend(shown), show_rows(shown, shown.found.examples), note=note)]


def show_worst(shown: Shown) -> list[Markup]:
    if len(shown.found.rows) <= len(shown.found.examples):
        return []
    note = "Those with the lowest mean IoU over their own classes, the lowest first."
    return [section("Worst images", show_legend(shown), show_rows(shown, shown.found.worst), note=note)]


def show_legend(shown: Shown) -> Markup:
    """A square of its color before each class that occurs, in masks or predictions."""
    met = np.flatnonzero(shown.found.matrix.sum(0) + shown.found.matrix.sum(1))
    entries = [show_class(shown.labels[number], shown.palette[number]) for number in met.tolist()]
    if any((example.truth < 0).any() for example in (*shown.found.examples, *shown.found.worst)):
        entries.append(show_class("no class", NOTHING))
    return element("p", *entries, class_="legend")


def show_rows(shown: Shown, examples: Sequence[SegmentedExample]) -> Markup:
    return element("div", *(show_example(shown, example) for example in examples), class_="pairs")


def show_example(shown: Shown, example: SegmentedExample) -> Markup:
    """Picture, truth and answer side by side."""
    panes = (
        ("picture", np.broadcast_to(example.picture, (*example.picture.shape[:2], 3))),
        ("truth", paint_over(example.picture, example.truth, shown.palette)),
        ("answer", paint_over(example.picture, example.said, shown.palette)),
    )
    name = PurePosixPath(example.name).name
    figures = (
        element(
            "figure",
            photograph(encode_picture(pane, largest=LARGEST), f"{words} of {name}", pixelated=is_small(pane)),
            element("figcaption", words),
            class_="sample",
        )
        for words, pane in panes
    )
    head = element("h3", label(name, columns=48), element("span", f" mean IoU {percent(example.score)}", class_="note"))
    return element("div", head, element("div", *figures, class_="panes"), class_="card pair")


def show_classes(shown: Shown) -> list[Markup]:
    """A row for each class, the lowest IoU first."""
    found, scores = shown.found, matrix_scores(shown.found.matrix)
    columns = {"IoU": found.iou, "recall": scores.recall, "precision": scores.precision}
    if not np.isnan(found.boundary).all():
        columns["boundary F"] = found.boundary
    share = scores.support / max(1, int(scores.support.sum()))
    order = np.argsort(np.where(np.isnan(found.iou), np.inf, found.iou), kind="stable")
    rows = [
        (
            Cell(show_class(shown.labels[k], shown.palette[k]), shown.labels[k]),
            Cell(percent(float(share[k])), float(share[k])),
            *(Cell(bar(float(values[k])), float(values[k])) for values in columns.values()),
        )
        for k in order.tolist()
    ]
    table = sortable_table(
        ("Class", "of all pixels", *columns), rows, ordered=(2, "ascending"), filtered="classes" if len(rows) > FEW else ""
    )
    note = (
        "IoU: pixels that are and are called so, of those that are or are called so. Boundary F: how much of the edges lies within two "
        "pixels of each other. The lowest IoU first; a click on a column sorts by it."
    )
    return [section("Classes", element("div", table, class_="card classes"), note=note)]


def show_confusions(shown: Shown) -> list[Markup]:
    matrix, labels = shown.found.matrix, shown.labels
    if not matrix.sum():
        return []
    shares, rows = confusion_shares(matrix), []
    for true, said, count in frequent_confusions(matrix, CONFUSIONS):
        between = element("span", " taken for ", class_="note")
        words = join(label(labels[true], columns=40), between, label(labels[said], columns=40))
        rows.append((words, f"{count:,}", percent(float(shares[true, said]))))
    share = np.nan_to_num(1000 * shares).round().astype(np.int64)  # a pixel count of millions does not fit a cell
    note = "A row is a true class, a column an answer, in thousandths of the class's pixels; the diagonal is right."
    if len(labels) > DRAWN_CLASSES:
        note += f" Shown: the {DRAWN_CLASSES} of {len(labels):,} classes with the most mistakes."
    parts = [drawing(to_svg(draw_confusion(share, labels)), "confusion matrix", kind="confusion")]
    if rows:
        parts.append(element("div", table(("Most frequent", "pixels", "of class"), rows), class_="card"))
    return [section("Confusions", element("div", *parts, class_="beside"), note=note)]


SECTIONS: tuple[Callable[[Shown], list[Markup]], ...] = (show_images, show_classes, show_worst, show_confusions)
