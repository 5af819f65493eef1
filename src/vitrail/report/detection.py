"""report.html of a detection run: average precision by class and size, precision against recall, and pictures with their boxes.

A section is a function from the report to markup, none where there is nothing to show; SECTIONS is their order.
n boxes, m objects
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float64, UInt8
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image

from vitrail.data.dataset import Split
from vitrail.data.examples import spread
from vitrail.data.images import PictureError
from vitrail.files import write_whole
from vitrail.learn.metrics.average_precision import AREAS, RECALLS, AveragePrecision
from vitrail.learn.metrics.box_matches import match_boxes
from vitrail.rendering import INK, STRONG, house_style, to_svg
from vitrail.report.boxes import Drawn, class_color, draw_boxes
from vitrail.report.page import (
    Cell,
    Markup,
    bar,
    contents,
    drawing,
    element,
    label,
    page,
    percent,
    photograph,
    section,
    sortable_table,
)
from vitrail.report.pictures import encode_jpeg
from vitrail.report.run_parts import show_commands, show_curves, show_header, show_options
from vitrail.tasks.detect import Detections

MOST = 10  # pictures
SEARCHED = 20  # rows from which on the table gets a box to search it
DRAWN_CLASSES = 12  # curves in one figure
LARGEST = 640  # pixels of the longer side of a picture in the page
WRONG, MISSED = "#e6194b", "#f58231"


@dataclass(frozen=True, kw_only=True, eq=False)
class Example:
    """One picture with what was found in it, from the threshold of the report on, and what is there; rows as `Detections` has them."""

    name: str
    picture: UInt8[np.ndarray, "h w 3"]
    found: Float64[np.ndarray, "n 7"]
    truth: Float64[np.ndarray, "m 8"]


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectionReport:
    """What the report shows of a run."""

    title: str
    headline: str
    facts: Mapping[str, str]
    history: Sequence[Mapping[str, float | int]]
    precision: AveragePrecision
    counts: Sequence[int]  # objects of each class
    labels: Sequence[str]
    examples: Sequence[Example] = ()
    threshold: float = 0.5
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, object] = field(default_factory=dict)


def choose_examples(found: Detections, pictures: Split, *, threshold: float) -> list[Example]:
    """Half of them those with the most mistakes, the others evenly chosen; none that cannot be read any more."""
    mistakes = {index: count_mistakes(*rows_of(found, index, threshold)) for index in found.pictures.tolist()}
    worst = sorted((index for index in mistakes if mistakes[index]), key=lambda index: (-mistakes[index], index))[: MOST // 2]
    others = [int(found.pictures[place]) for place in spread(len(found.pictures), MOST)]
    chosen = [*worst, *(index for index in others if index not in worst)][:MOST]
    examples = []
    for index in sorted(chosen):
        try:
            picture = np.asarray(pictures.read(index).convert("RGB"))
        except PictureError:
            continue
        rows = rows_of(found, index, threshold)
        examples.append(Example(name=pictures.name(index), picture=picture, found=rows[0], truth=rows[1]))
    return examples


def rows_of(found: Detections, index: int, threshold: float) -> tuple[Float64[np.ndarray, "n 7"], Float64[np.ndarray, "m 8"]]:
    """Boxes from a score on, and objects, of one picture."""
    kept = found.found[found.found[:, 0] == index]
    return kept[kept[:, 2] >= threshold], found.truth[found.truth[:, 0] == index]


def count_mistakes(found: Float64[np.ndarray, "n 7"], truth: Float64[np.ndarray, "m 8"]) -> int:
    hits, seen = match_boxes(found[:, 3:], found[:, 1].astype(int), truth[:, 4:], truth[:, 1].astype(int))
    needed = (truth[:, 2] == 0) & (truth[:, 3] == 0)
    return int((hits < 0).sum() + (~seen & needed).sum())


def write_detection_report(report: DetectionReport, path: Path) -> None:
    """Write the page. Whoever reads `path` meanwhile sees the old page or the new one, never a part."""
    numbers = report.precision.numbers
    words = {
        "ap": "AP (0.50 to 0.95)",
        "ap75": "AP75",
        **{f"ap_{area}": f"AP {area}" for area in list(AREAS)[1:]},
        "recall": "Recall",
    }
    shown = {word: percent(numbers[name]) for name, word in words.items() if name in numbers}
    header = show_header(report.title, report.headline, interval="", numbers=shown, facts=report.facts)
    sections = [made for show in SECTIONS for made in show(report)]
    write_whole(path, page(report.title, header, contents(sections), *sections))


def show_classes(report: DetectionReport) -> list[Markup]:
    """A row for each class, the best first."""
    rows = []
    for number, name in enumerate(report.labels):
        found, best = report.precision.of_class(number), report.precision.best_threshold(number)
        threshold, precise, reached = best if best is not None else (math.nan,) * 3
        numbers = [found["ap50"], found["ap"], found["ap75"], threshold, precise, reached]
        cells = [Cell(label(name), name), Cell(f"{report.counts[number]:,}", float(report.counts[number]))]
        cells += [Cell(bar(value), value) for value in numbers[:3]]
        cells.append(Cell("–" if math.isnan(threshold) else f"{threshold:.2f}", threshold))
        cells += [Cell(percent(value), value) for value in numbers[4:]]
        rows.append((found["ap50"], cells))
    rows.sort(key=lambda row: (math.isnan(row[0]), -row[0] if row[0] == row[0] else 0.0))
    head = ["Class", "objects", "AP50", "AP", "AP75", "best threshold", "precision", "recall"]
    note = "Average precision, at an overlap (IoU) of 0.5, over 0.50 to 0.95, and at 0.75. The best threshold is the score from which on precision and recall, told beside it, have the highest harmonic mean."
    many = "classes" if len(rows) >= SEARCHED else ""
    shown = sortable_table(head, [cells for _, cells in rows], ordered=(2, "descending"), filtered=many)
    return [section("By class", element("div", shown, class_="card classes"), note=note)]


def show_precision(report: DetectionReport) -> list[Markup]:
    if not any(report.precision.curve(number) is not None for number in range(len(report.labels))):
        return []
    note = "How many of the boxes are right, by how many of the objects are found, from the surest box to the least sure; at an overlap of 0.5."
    figure = drawing(to_svg(draw_precision(report.precision, report.labels)), "precision against recall of each class")
    return [section("Precision and recall", figure, note=note)]


def draw_precision(precision: AveragePrecision, labels: Sequence[str]) -> Figure:
    """A curve for each class, those with the most area; and their mean."""
    curves = {number: curve for number in range(len(labels)) if (curve := precision.curve(number)) is not None}
    order = sorted(curves, key=lambda number: -float(curves[number].mean()))
    with house_style():
        figure = Figure(figsize=(6.4, 3.6), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
        axes = figure.subplots()
        for number in order[:DRAWN_CLASSES]:
            axes.plot(RECALLS, curves[number], color=class_color(number), linewidth=1.3, label=labels[number][:24])
        if len(order) > 1:
            middle: Float[np.ndarray, 101] = np.mean([curves[number] for number in order], axis=0)
            axes.plot(RECALLS, middle, color=STRONG, linewidth=2.4, linestyle="--", label="mean")
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.03))
        axes.grid(color=INK, alpha=0.18, linewidth=0.7)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return figure


def show_pictures(report: DetectionReport) -> list[Markup]:
    """The truth beside what was found; misses and false alarms in colors of their own."""
    if not report.examples:
        return []
    figures = [shown for one in report.examples for shown in show_example(one, report.labels)]
    note = f"Left what is there, dashed orange what was missed; right what was found from a score of {report.threshold:.2f} on, red what is wrong: no object of its class that no better box has found overlaps it by half. The other colors are the classes'. Half of the pictures are those with the most mistakes."
    return [section("Pictures", element("div", *figures, class_="scenes"), note=note)]


def show_example(example: Example, labels: Sequence[str]) -> list[Markup]:
    found, truth = example.found, example.truth
    kinds, said = truth[:, 1].astype(int), found[:, 1].astype(int)
    hits, seen = match_boxes(found[:, 3:], said, truth[:, 4:], kinds)
    passed = (truth[:, 2] > 0) | (truth[:, 3] > 0)  # crowds and difficult ones: nobody's mistake
    there = [
        Drawn(box, class_color(kind) if hit or spared else MISSED, labels[kind], dashed=not hit)
        for box, kind, hit, spared in zip(truth[:, 4:].tolist(), kinds.tolist(), seen.tolist(), passed.tolist(), strict=True)
    ]
    answers = [
        Drawn(box, class_color(kind) if hit >= 0 else WRONG, f"{labels[kind]} {score:.2f}")
        for box, kind, score, hit in zip(found[:, 3:].tolist(), said.tolist(), found[:, 2].tolist(), hits.tolist(), strict=True)
    ][::-1]  # the surest in front
    missed, wrong = int((~seen & ~passed).sum()), int((hits < 0).sum())
    words = f"{len(truth)} there, {missed} missed", f"{len(found)} found, {wrong} wrong"
    pictures = (to_photograph(example.picture, boxes, example.name) for boxes in (there, answers))
    name = element("div", label(Path(example.name).name))
    return [
        element("figure", picture, element("figcaption", name, element("div", said_here, class_="note")), class_="scene")
        for picture, said_here in zip(pictures, words, strict=True)
    ]


def to_photograph(picture: UInt8[np.ndarray, "h w 3"], boxes: Sequence[Drawn], name: str) -> Markup:
    shown = draw_boxes(Image.fromarray(picture), boxes)
    shown.thumbnail((LARGEST, LARGEST))
    return photograph(encode_jpeg(np.asarray(shown)), f"{Path(name).name} with {len(boxes)} boxes", pixelated=False)


def show_training(report: DetectionReport) -> list[Markup]:
    return [show_curves(report.history)] if report.history else []


def show_next(report: DetectionReport) -> list[Markup]:
    return [show_commands(report.commands)] if report.commands else []


def show_configuration(report: DetectionReport) -> list[Markup]:
    return [show_options(report.configuration)] if report.configuration else []


SECTIONS: tuple[Callable[[DetectionReport], list[Markup]], ...] = (
    show_classes, show_precision, show_pictures, show_training, show_next, show_configuration,
)  # fmt: skip
