"""report.html of a run on volumes: planes with the outlines of truth and answer, a projection, every volume's scores.

x y z sides of a volume, h w picture
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, Integer, Shaped, UInt8
from PIL import Image

from vitrail.files import write_whole
from vitrail.report.page import Cell, Markup, contents, element, label, page, photograph, section, sortable_table
from vitrail.report.pictures import encode_picture
from vitrail.report.run_parts import show_commands, show_curves, show_header, show_options
from vitrail.tasks.segment3d import SegmentedVolume, VolumeScores

SIDE = 320  # pixels of the longer side of a plane
MANY = 12  # rows above which a table can be searched
TRUTH, FOUND, BOTH = (58, 116, 189), (204, 103, 29), (90, 160, 90)  # blue: missed, orange: too much, green: right
PLANES = ("sagittal", "coronal", "axial")  # across x, y, z


@dataclass(frozen=True, kw_only=True)
class VolumeReport:
    """What the report shows of a run. `names` are the volumes', by number."""

    title: str
    headline: str
    found: VolumeScores
    names: Sequence[str]
    classes: Sequence[str]
    facts: Mapping[str, str] = field(default_factory=dict)
    history: Sequence[Mapping[str, float | int]] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, object] = field(default_factory=dict)


def write_volume_report(report: VolumeReport, path: Path) -> None:
    """Write the page. Whoever reads `path` meanwhile sees the old page or the new one, never a part."""
    metrics = report.found.metrics
    numbers = {"Dice": f"{100 * metrics['dice']:.2f} %"}
    if "surface_mm" in metrics:
        numbers |= {"surfaces apart": f"{metrics['surface_mm']:.2f} mm", "95 % within": f"{metrics['hausdorff95_mm']:.2f} mm"}
    header = show_header(report.title, report.headline, interval="", numbers=numbers, facts=report.facts)
    sections = list(_sections(report))
    write_whole(path, page(report.title, header, contents(sections), *sections))


def _sections(report: VolumeReport) -> Iterator[Markup]:
    if report.found.examples:
        yield show_volumes(report.found.examples, report.names)
    if len(report.found.dice):
        yield show_scores(report)
    if report.history:
        yield show_curves(report.history)
    if report.commands:
        yield show_commands(report.commands)
    if report.configuration:
        yield show_options(report.configuration)


def show_volumes(some: Sequence[SegmentedVolume], names: Sequence[str]) -> Markup:
    note = (
        "Three planes through what is labelled, and the brightest voxel of each line from front to back. Green is labelled rightly, blue was "
        "missed, orange is too much. As radiologists look at them: the patient's right is on the left."
    )
    return section("Volumes", *(show_volume(one, names[one.number]) for one in some), note=note)


def show_volume(one: SegmentedVolume, name: str) -> Markup:
    at = middle_of(one.truth if one.truth.any() else one.found)
    drawn = [(f"{PLANES[axis]}, slice {at[axis]}", draw_plane(one, axis, at[axis])) for axis in range(3)]
    drawn.append(("projection", draw_projection(one)))
    figures = (
        element(
            "figure",
            photograph(encode_picture(picture, largest=SIDE), f"{words} of {name}", pixelated=False),
            element("figcaption", label(name), f" {words}"),
        )
        for words, picture in drawn
    )
    return element("div", *figures, class_="planes")


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
    picture = np.repeat(gray[..., None].clip(0, 1) * 255, 3, axis=-1)
    for where, color in (
        ((truth > 0) & (found == truth), BOTH),
        ((truth > 0) & (found != truth), TRUTH),
        ((found > 0) & (truth == 0), FOUND),
    ):
        strength = np.where(edges_of(where), 0.9, 0.35)[where][:, None]
        picture[where] = (1 - strength) * picture[where] + strength * np.array(color)
    return picture.round().astype(np.uint8)


def edges_of(mask: Bool[np.ndarray, "u v"]) -> Bool[np.ndarray, "u v"]:
    """Cells with a neighbor beside, above or below that is not of the mask."""
    padded = np.pad(mask, 1)
    inner = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return mask & ~inner


def finish(picture: Shaped[np.ndarray, "u v 3"], spacing: tuple[float, float, float], axis: int) -> UInt8[np.ndarray, "h w 3"]:
    """Turned as radiologists look at it, and with square pixels."""
    across = [spacing[other] for other in range(3) if other != axis]
    upright = np.ascontiguousarray(to_upright(picture))
    lengths = upright.shape[1] * across[0], upright.shape[0] * across[1]
    scale = SIDE / max(lengths)
    size = max(1, round(lengths[0] * scale)), max(1, round(lengths[1] * scale))
    return np.asarray(Image.fromarray(upright).resize(size, Image.Resampling.BILINEAR))


def to_upright(plane: Shaped[np.ndarray, "u v *more"]) -> Shaped[np.ndarray, "v u *more"]:
    """A plane of a volume as radiologists look at it: up is up, the patient's right, or front, is on the left."""
    return plane[::-1, ::-1].swapaxes(0, 1)


def show_scores(report: VolumeReport) -> Markup:
    """Each class of each volume, the worst first; what is in neither truth nor answer is left out."""
    found, rows = report.found, []
    for row, index in enumerate(found.indices.tolist()):
        for number, name in enumerate(report.classes):
            if not number or np.isnan(found.dice[row, number]):
                continue
            values = (100 * found.dice[row, number], found.mean_distance[row, number], found.most_distance[row, number])
            shown = [*values, found.found_ml[row, number], found.truth_ml[row, number]]
            words = ("{:.2f} %", "{:.2f} mm", "{:.2f} mm", "{:.1f} ml", "{:.1f} ml")
            cells = (Cell("–" if np.isnan(v) else how.format(v), float(v)) for how, v in zip(words, shown, strict=True))
            rows.append((Cell(label(report.names[index]), report.names[index]), Cell(label(name), name), *cells))
    rows.sort(key=lambda cells: cells[2].value)
    head = ("volume", "class", "Dice", "surfaces apart", "95 % within", "found", "true")
    return section(
        "Every volume", sortable_table(head, rows, ordered=(2, "ascending"), filtered="volumes" if len(rows) > MANY else "")
    )
