"""The report of a run on volumes: planes with the outlines of labels and predictions, a projection, every volume's scores.

x y z sides of a volume, u v of a plane, h w image
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32, Integer, UInt8

from vitrail.data.volumes.opening import VolumeData
from vitrail.learn.training.state import Row
from vitrail.models.volume_segmenter import VolumeSegmenter
from vitrail.report.images import encode_image
from vitrail.report.page import Content, Section, templates_of
from vitrail.report.parts import Cell, Label, Photograph, SortableTable
from vitrail.report.volume_planes import PLANES, SIDE, edges_of, finish
from vitrail.tasks.segment3d.objective import SegmentedVolume, VolumeScores
from vitrail.tasks.stages import Scored, Setup

MANY = 12  # rows above which a table can be searched
TRUTH, FOUND, BOTH = (58, 116, 189), (204, 103, 29), (90, 160, 90)  # blue: missed, orange: too much, green: right


def sections(scored: Scored[VolumeData], setup: Setup[Any, VolumeData, Any], rows: Sequence[Row]) -> Iterable[Section]:
    """Some volumes, then the scores of all."""
    found = scored.evaluation
    assert isinstance(found, VolumeScores)
    names = [case.name for case in scored.data.splits[scored.split]]  # type: ignore[index]
    if found.examples:
        yield show_volumes(found.examples, names)
    if len(found.dice):
        yield show_scores(found, names, scored.data.classes)


def commands(run: str, model: VolumeSegmenter) -> Mapping[str, str]:
    """What to do with a run: what it does -> a line for the shell. `run` is quoted."""
    return {
        "Label another scan": f"vitrail predict {run} scan.nii.gz --out labels/",
        "Score it on other volumes": f"vitrail eval {run} --data FOLDER --out scores/",
        "Start another run from it": f"vitrail train --task segment3d --data DATA --weights {run}",
    }


def show_volumes(some: Sequence[SegmentedVolume], names: Sequence[str]) -> Section:
    note = (
        "Three planes through what is labeled, and the brightest voxel of each line from front to back. Green is labeled correctly, blue was "
        "missed, orange is too much. As radiologists look at them: the patient's right is on the left."
    )
    return Section("Volumes", [show_volume(one, names[one.number]) for one in some], note=note, first=True)


def show_volume(one: SegmentedVolume, name: str) -> Content:
    at = middle_of(one.truth if one.truth.any() else one.found)
    drawn = [(f"{PLANES[axis]}, slice {at[axis]}", draw_plane(one, axis, at[axis])) for axis in range(3)]
    drawn.append(("projection", draw_projection(one)))
    planes = [(Photograph(encode_image(image, largest=SIDE), f"{words} of {name}"), words) for words, image in drawn]
    return templates_of(__file__).render("planes.html", planes=planes, name=Label(name))


def middle_of(classes: Integer[np.ndarray, "x y z"]) -> tuple[int, int, int]:
    """Along each axis the slice with the most that is labelled; the middle one where nothing is."""
    inside = classes > 0
    found = []
    for axis in range(3):
        counts = inside.sum(axis=tuple(other for other in range(3) if other != axis))
        found.append(int(counts.argmax()) if counts.any() else classes.shape[axis] // 2)
    return found[0], found[1], found[2]


def draw_plane(one: SegmentedVolume, axis: int, position: int) -> UInt8[np.ndarray, "h w 3"]:
    gray, truth, found = (np.take(values, position, axis=axis) for values in (one.image, one.truth, one.found))
    return finish(paint(gray, truth, found), one.spacing, axis)


def draw_projection(one: SegmentedVolume) -> UInt8[np.ndarray, "h w 3"]:
    """Along y: the brightest voxel, and what is labelled anywhere on the line."""
    return finish(paint(one.image.max(axis=1), one.truth.max(axis=1), one.found.max(axis=1)), one.spacing, 1)


def paint(
    gray: Float32[np.ndarray, "u v"], truth: Integer[np.ndarray, "u v"], found: Integer[np.ndarray, "u v"]
) -> UInt8[np.ndarray, "u v 3"]:
    """Gray, tinted where there is a label, and fully colored at the edges of labels."""
    image = np.repeat(gray[..., None].clip(0, 1) * 255, 3, axis=-1)
    for where, color in (
        ((truth > 0) & (found == truth), BOTH),
        ((truth > 0) & (found != truth), TRUTH),
        ((found > 0) & (truth == 0), FOUND),
    ):
        strength = np.where(edges_of(where), 0.9, 0.35)[where][:, None]
        image[where] = (1 - strength) * image[where] + strength * np.array(color)
    return image.round().astype(np.uint8)


def show_scores(found: VolumeScores, names: Sequence[str], classes: Sequence[str]) -> Section:
    """Each class of each volume, the worst first; what is neither labelled nor predicted is left out."""
    rows = []
    for row, index in enumerate(found.indices.tolist()):
        for number, name in enumerate(classes):
            if not number or np.isnan(found.dice[row, number]):
                continue
            values = (100 * found.dice[row, number], found.mean_distance[row, number], found.most_distance[row, number])
            shown = [*values, found.found_ml[row, number], found.truth_ml[row, number]]
            words = ("{:.2f} %", "{:.2f} mm", "{:.2f} mm", "{:.1f} ml", "{:.1f} ml")
            cells = (Cell("–" if np.isnan(v) else how.format(v), float(v)) for how, v in zip(words, shown, strict=True))
            rows.append((Cell(Label(names[index]), names[index]), Cell(Label(name), name), *cells))
    rows.sort(key=lambda cells: cells[2].value)
    head = ("volume", "class", "Dice", "surfaces apart", "95 % within", "found", "true")
    table = SortableTable(head, rows, ordered=(2, "ascending"), filtered="volumes" if len(rows) > MANY else "")
    return Section("Every volume", [table], first=True)
