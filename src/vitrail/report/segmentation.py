"""report.html of a segmentation run: the score, pictures beside truth and answer, every class's numbers, what is taken for what, and
what the run was.

A section is a function from the report to markup, none where there is nothing to show; SECTIONS is their order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from vitrail.data.class_colors import Color, choose_colors
from vitrail.data.mask_painting import NOTHING, paint_over
from vitrail.files import write_whole
from vitrail.learn.metrics.confusion import confusion_shares, frequent_confusions, matrix_scores
from vitrail.report.class_legend import show_class
from vitrail.report.figures import draw_confusion, to_svg
from vitrail.report.matrix import DRAWN_CLASSES
from vitrail.report.page import (
    Cell,
    Markup,
    bar,
    contents,
    drawing,
    element,
    join,
    label,
    page,
    percent,
    photograph,
    section,
    sortable_table,
    table,
)
from vitrail.report.pictures import encode_picture, is_small
from vitrail.report.run_parts import show_commands, show_curves, show_header, show_options
from vitrail.tasks.segment import Segmentations, SegmentedExample

CONFUSIONS = 12
FEW = 30  # classes up to which the table needs no box to search it
LARGEST = 320  # pixels of the longer side of a picture


@dataclass(frozen=True, kw_only=True)
class SegmentationReport:
    """What the report shows of a run."""

    title: str
    headline: str
    facts: Mapping[str, str]
    history: Sequence[Mapping[str, float | int]]
    found: Segmentations
    labels: tuple[str, ...]
    colors: Sequence[Color] | None = None
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, object] = field(default_factory=dict)

    @property
    def palette(self) -> Sequence[Color]:
        return self.colors or choose_colors(self.labels)


def write_segmentation_report(report: SegmentationReport, path: Path) -> None:
    """Write the page. Whoever reads `path` meanwhile sees the old page or the new one, never a part."""
    metrics = report.found.metrics
    numbers = {"Pixel accuracy": percent(metrics["pixel_accuracy"], digits=2)}
    if "boundary_f" in metrics:
        numbers["Boundary F"] = percent(metrics["boundary_f"], digits=2)
    header = show_header(report.title, report.headline, interval="", numbers=numbers, facts=report.facts)
    sections = [made for show in SECTIONS for made in show(report)]
    write_whole(path, page(report.title, header, contents(sections), *sections))


def show_pictures(report: SegmentationReport) -> list[Markup]:
    """The first of the split, in its order."""
    if not report.found.examples:
        return [section("Pictures", note="There were no pictures to segment.")]
    note = "The picture, its mask, and what the model says; gray in a mask is of no class."
    return [section("Pictures", show_legend(report), show_rows(report, report.found.examples), note=note)]


def show_worst(report: SegmentationReport) -> list[Markup]:
    if len(report.found.rows) <= len(report.found.examples):
        return []
    note = "Those with the lowest mean IoU over their own classes, the lowest first."
    return [section("Worst pictures", show_legend(report), show_rows(report, report.found.worst), note=note)]


def show_legend(report: SegmentationReport) -> Markup:
    """A square of its color before each class that occurs, in truth or answers."""
    met = np.flatnonzero(report.found.matrix.sum(0) + report.found.matrix.sum(1))
    entries = [show_class(report.labels[number], report.palette[number]) for number in met.tolist()]
    if any((example.truth < 0).any() for example in (*report.found.examples, *report.found.worst)):
        entries.append(show_class("no class", NOTHING))
    return element("p", *entries, class_="legend")


def show_rows(report: SegmentationReport, examples: Sequence[SegmentedExample]) -> Markup:
    return element("div", *(show_example(report, example) for example in examples), class_="pairs")


def show_example(report: SegmentationReport, example: SegmentedExample) -> Markup:
    """Picture, truth and answer side by side."""
    panes = (
        ("picture", np.broadcast_to(example.picture, (*example.picture.shape[:2], 3))),
        ("truth", paint_over(example.picture, example.truth, report.palette)),
        ("answer", paint_over(example.picture, example.said, report.palette)),
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


def show_classes(report: SegmentationReport) -> list[Markup]:
    """A row for each class, the lowest IoU first."""
    found, scores = report.found, matrix_scores(report.found.matrix)
    columns = {"IoU": found.iou, "recall": scores.recall, "precision": scores.precision}
    if not np.isnan(found.boundary).all():
        columns["boundary F"] = found.boundary
    share = scores.support / max(1, int(scores.support.sum()))
    order = np.argsort(np.where(np.isnan(found.iou), np.inf, found.iou), kind="stable")
    rows = [
        (
            Cell(show_class(report.labels[k], report.palette[k]), report.labels[k]),
            Cell(percent(float(share[k])), float(share[k])),
            *(Cell(bar(float(values[k])), float(values[k])) for values in columns.values()),
        )
        for k in order.tolist()
    ]
    shown = sortable_table(
        ("Class", "of all pixels", *columns), rows, ordered=(2, "ascending"), filtered="classes" if len(rows) > FEW else ""
    )
    note = (
        "IoU: pixels that are and are called so, of those that are or are called so. Boundary F: how much of the edges lies within two "
        "pixels of each other. The lowest IoU first; a click on a column sorts by it."
    )
    return [section("Classes", element("div", shown, class_="card classes"), note=note)]


def show_confusions(report: SegmentationReport) -> list[Markup]:
    matrix, labels = report.found.matrix, report.labels
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


def show_training(report: SegmentationReport) -> list[Markup]:
    return [show_curves(report.history)] if report.history else []


def show_next(report: SegmentationReport) -> list[Markup]:
    return [show_commands(report.commands)] if report.commands else []


def show_configuration(report: SegmentationReport) -> list[Markup]:
    return [show_options(report.configuration)] if report.configuration else []


SECTIONS: tuple[Callable[[SegmentationReport], list[Markup]], ...] = (
    show_pictures, show_classes, show_worst, show_confusions, show_training, show_next, show_configuration,
)  # fmt: skip
