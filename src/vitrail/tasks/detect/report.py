"""The report of a detector: average precision by class, precision against recall, and images with their boxes.

n boxes, m objects
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, UInt8
from matplotlib.figure import Figure
from PIL import Image

from vitrail.data.dataset import DataSet, Split
from vitrail.data.examples import spread
from vitrail.data.images import ImageError
from vitrail.learn.metrics.average_precision import RECALLS, AveragePrecision
from vitrail.learn.metrics.box_matches import match_boxes
from vitrail.learn.training.state import Row
from vitrail.models.detr import Detector, usual_threshold
from vitrail.rendering import INK, STRONG, house_style, new_figure, to_svg
from vitrail.report.boxes import Drawn, class_color, draw_boxes
from vitrail.report.images import encode_jpeg
from vitrail.report.page import Section, templates_of
from vitrail.report.parts import Bar, Cell, Drawing, Label, Photograph, SortableTable, percent
from vitrail.tasks.detect.data import labels_of
from vitrail.tasks.detect.objective import Detections
from vitrail.tasks.stages import Scored, Setup

MOST = 10  # images
SEARCHED = 20  # rows from which on the table gets a box to search it
DRAWN_CLASSES = 12  # curves in one figure
LARGEST = 640  # pixels of the longer side of an image in the page
WRONG, MISSED = "#e6194b", "#f58231"


@dataclass(frozen=True, kw_only=True, eq=False)
class Example:
    """One image with its detections, from the threshold of the report on, and its objects; rows as `Detections` has them."""

    name: str
    image: UInt8[np.ndarray, "h w 3"]
    found: Float64[np.ndarray, "n 7"]
    truth: Float64[np.ndarray, "m 8"]


class Scene(NamedTuple):
    """An image with boxes on it, as the page shows it."""

    image: Photograph
    name: Label
    counted: str


def sections(scored: Scored[DataSet], setup: Setup[Any, DataSet, None], rows: Sequence[Row]) -> Iterable[Section]:
    """Classes, curves of precision, images, before the curves of training."""
    found, model = scored.evaluation, scored.model
    assert isinstance(found, Detections)
    images, threshold = scored.data.splits[scored.split], usual_threshold(model.config)  # type: ignore[index]
    examples = choose_examples(found, images, threshold=threshold)
    yield from show_detections(found, examples, labels_of(model), threshold=threshold)


def show_detections(
    found: Detections, examples: Sequence[Example], labels: Sequence[str], *, threshold: float
) -> list[Section]:
    """The sections of a split's detections; none where there is nothing to show."""
    counts = [int((found.truth[:, 1] == number).sum()) for number in range(found.classes)]
    return [
        *show_classes(found.precision, labels, counts),
        *show_precision(found.precision, labels),
        *show_images(examples, labels, threshold=threshold),
    ]


def commands(run: str, model: Detector) -> Mapping[str, str]:
    """What to do with a run: what it does -> a line for the shell. `run` is quoted."""
    return {
        "Find objects in images": f"vitrail predict {run} IMAGE... --out DIR",
        "See where it looks for them": f"vitrail explain {run} IMAGE... --out DIR",
        "Score it on other images": f"vitrail eval {run} --data FOLDER",
    }


def choose_examples(found: Detections, images: Split, *, threshold: float) -> list[Example]:
    """Half of them those with the most mistakes, the others evenly chosen; none that cannot be read any more."""
    mistakes = {index: count_mistakes(*rows_of(found, index, threshold)) for index in found.images.tolist()}
    worst = sorted((index for index in mistakes if mistakes[index]), key=lambda index: (-mistakes[index], index))[: MOST // 2]
    others = [int(found.images[place]) for place in spread(len(found.images), MOST)]
    chosen = [*worst, *(index for index in others if index not in worst)][:MOST]
    examples = []
    for index in sorted(chosen):
        try:
            image = np.asarray(images.read(index).convert("RGB"))
        except ImageError:
            continue
        rows = rows_of(found, index, threshold)
        examples.append(Example(name=images.name(index), image=image, found=rows[0], truth=rows[1]))
    return examples


def rows_of(found: Detections, index: int, threshold: float) -> tuple[Float64[np.ndarray, "n 7"], Float64[np.ndarray, "m 8"]]:
    """Boxes from a score on, and objects, of one image."""
    kept = found.found[found.found[:, 0] == index]
    return kept[kept[:, 2] >= threshold], found.truth[found.truth[:, 0] == index]


def count_mistakes(found: Float64[np.ndarray, "n 7"], truth: Float64[np.ndarray, "m 8"]) -> int:
    hits, seen = match_boxes(found[:, 3:], found[:, 1].astype(int), truth[:, 4:], truth[:, 1].astype(int))
    needed = (truth[:, 2] == 0) & (truth[:, 3] == 0)
    return int((hits < 0).sum() + (~seen & needed).sum())


def show_classes(precision: AveragePrecision, labels: Sequence[str], counts: Sequence[int]) -> list[Section]:
    """A row for each class, the best first; `counts`: its objects."""
    rows = []
    for number, name in enumerate(labels):
        found, best = precision.of_class(number), precision.best_threshold(number)
        threshold, precise, reached = best if best is not None else (math.nan,) * 3
        numbers = [found["ap50"], found["ap"], found["ap75"], threshold, precise, reached]
        cells = [Cell(Label(name), name), Cell(f"{counts[number]:,}", float(counts[number]))]
        cells += [Cell(Bar(value), value) for value in numbers[:3]]
        cells.append(Cell("–" if math.isnan(threshold) else f"{threshold:.2f}", threshold))
        cells += [Cell(percent(value), value) for value in numbers[4:]]
        rows.append((found["ap50"], cells))
    rows.sort(key=lambda row: (math.isnan(row[0]), -row[0] if row[0] == row[0] else 0.0))
    head = ["Class", "objects", "AP50", "AP", "AP75", "best threshold", "precision", "recall"]
    note = "Average precision, at an overlap (IoU) of 0.5, over 0.50 to 0.95, and at 0.75. The best threshold is the score from which on precision and recall, given beside it, have the highest harmonic mean."
    many = "classes" if len(rows) >= SEARCHED else ""
    shown = SortableTable(head, [cells for _, cells in rows], ordered=(2, "descending"), filtered=many, card="card classes")
    return [Section("By class", [shown], note=note, first=True)]


def show_precision(precision: AveragePrecision, labels: Sequence[str]) -> list[Section]:
    if not any(precision.curve(number) is not None for number in range(len(labels))):
        return []
    note = "How many of the boxes are right, by how many of the objects are found, from the box with the highest score to the lowest; at an overlap of 0.5."
    figure = Drawing(to_svg(draw_precision(precision, labels)), "precision against recall of each class")
    return [Section("Precision and recall", [figure], note=note, first=True)]


def draw_precision(precision: AveragePrecision, labels: Sequence[str]) -> Figure:
    """A curve for each class, those with the most area; and their mean."""
    curves = {number: curve for number in range(len(labels)) if (curve := precision.curve(number)) is not None}
    order = sorted(curves, key=lambda number: -float(curves[number].mean()))
    with house_style():
        figure = new_figure(6.4, 3.6)
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


def show_images(examples: Sequence[Example], labels: Sequence[str], *, threshold: float) -> list[Section]:
    """Objects beside detections; misses and false alarms in colors of their own."""
    if not examples:
        return []
    scenes = [scene for one in examples for scene in draw_example(one, labels)]
    note = f"Left the objects, dashed orange what was missed; right the detections from a score of {threshold:.2f} on, red what is wrong: no object of its class that no better box has found overlaps it by half. The other colors are the classes'. Half of the images are those with the most mistakes."
    return [Section("Images", [templates_of(__file__).render("scenes.html", scenes=scenes)], note=note, first=True)]


def draw_example(example: Example, labels: Sequence[str]) -> list[Scene]:
    """Its objects, and what was detected."""
    found, truth = example.found, example.truth
    kinds, predicted = truth[:, 1].astype(int), found[:, 1].astype(int)
    hits, seen = match_boxes(found[:, 3:], predicted, truth[:, 4:], kinds)
    passed = (truth[:, 2] > 0) | (truth[:, 3] > 0)  # crowds and difficult ones: nobody's mistake
    objects = [
        Drawn(box, class_color(kind) if hit or spared else MISSED, labels[kind], dashed=not hit)
        for box, kind, hit, spared in zip(truth[:, 4:].tolist(), kinds.tolist(), seen.tolist(), passed.tolist(), strict=True)
    ]
    detections = [
        Drawn(box, class_color(kind) if hit >= 0 else WRONG, f"{labels[kind]} {score:.2f}")
        for box, kind, score, hit in zip(
            found[:, 3:].tolist(), predicted.tolist(), found[:, 2].tolist(), hits.tolist(), strict=True
        )
    ][::-1]  # the highest score in front
    missed, wrong = int((~seen & ~passed).sum()), int((hits < 0).sum())
    words = f"{len(truth)} there, {missed} missed", f"{len(found)} found, {wrong} wrong"
    name = Path(example.name).name
    images = (to_photograph(example.image, boxes, name) for boxes in (objects, detections))
    return [Scene(image, Label(name), counted) for image, counted in zip(images, words, strict=True)]


def to_photograph(image: UInt8[np.ndarray, "h w 3"], boxes: Sequence[Drawn], name: str) -> Photograph:
    shown = draw_boxes(Image.fromarray(image), boxes)
    shown.thumbnail((LARGEST, LARGEST))
    return Photograph(encode_jpeg(np.asarray(shown)), f"{name} with {len(boxes)} boxes")
