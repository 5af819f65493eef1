"""The sections of an explanation of volumes: three planes through a place with labels, doubts, and what the place reads.

x y z sides of a volume, u v of a plane, i j l grid that a place reads
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Integer, UInt8
from torch import Tensor

from vitrail.data.class_colors import Color
from vitrail.data.mask_painting import paint_over
from vitrail.explain.figures.overlay import overlay, scale_end
from vitrail.explain.voxels import VoxelLook
from vitrail.report.explanation import link_figures
from vitrail.report.page import Section, templates_of
from vitrail.report.parts import ClassName, Label, Legend, Paragraph
from vitrail.report.volume_planes import PLANES, edges_of, finish

GAP = 8  # pixels between planes
WHITE = (255, 255, 255)


@dataclass(frozen=True, kw_only=True)
class ExplainedVolume:
    """A volume as the model reads it, its labels, and the look at a place of it."""

    name: str
    volume: Float32[np.ndarray, "x y z"]
    classes: Integer[np.ndarray, "x y z"]
    unsure: Float[np.ndarray, "x y z"]
    spacing: tuple[float, float, float]
    look: VoxelLook


class Choice(NamedTuple):
    """What all volumes of a page share. The first class is the background; layer and head count from 0."""

    labels: Sequence[str]
    colors: Sequence[Color]
    layer: int | None = None
    head: int | None = None


def cut(values: np.ndarray, axis: int, at: int) -> np.ndarray:
    return np.take(values, at, axis=axis)


def gray_plane(shown: ExplainedVolume, axis: int) -> UInt8[np.ndarray, "u v 1"]:
    plane = cut(shown.volume, axis, shown.look.place[axis])
    return (255 * plane.clip(0, 1)).round().astype(np.uint8)[..., None]


def label_plane(shown: ExplainedVolume, colors: Sequence[Color], axis: int) -> UInt8[np.ndarray, "u v 3"]:
    """Labels over the scan; the background stays as it is."""
    gray, numbers = gray_plane(shown, axis), cut(shown.classes, axis, shown.look.place[axis])
    painted = paint_over(gray, numbers.astype(np.int64), colors)
    return np.where(numbers[..., None] > 0, painted, gray).astype(np.uint8)


def unsure_plane(shown: ExplainedVolume, axis: int) -> UInt8[np.ndarray, "u v 3"]:
    heat = cut(shown.unsure, axis, shown.look.place[axis]).astype(np.float32)
    return overlay(gray_plane(shown, axis), heat, 1.0, smallest=1)


def map_plane(shown: ExplainedVolume, shares: Float[Tensor, "i j l"], highest: float, axis: int) -> UInt8[np.ndarray, "u v 3"]:
    """In times an even share, on the plane through the place; nothing outside of what is read. The asking patch has a frame."""
    look = shown.look
    gray, heat = gray_plane(shown, axis), shares.numel() * shares
    layer = heat.select(axis, (look.place[axis] - look.begin[axis]) // look.patch)
    others = [other for other in range(3) if other != axis]
    enlarged = layer.repeat_interleave(look.patch, 0).repeat_interleave(look.patch, 1)
    plane = torch.zeros(gray.shape[:2])
    inside = []  # in the plane, and in the map
    for side, other in enumerate(others):
        begin = look.begin[other]
        end = min(plane.shape[side], begin + enlarged.shape[side])
        inside.append((slice(max(0, begin), end), slice(max(0, -begin), end - begin)))
    (u, from_u), (v, from_v) = inside
    plane[u, v] = enlarged[from_u, from_v].float()
    drawn = overlay(gray, plane, highest, smallest=1).copy()
    drawn[edges_of(asking(look, gray.shape[:2], others))] = WHITE
    return drawn


def asking(look: VoxelLook, size: tuple[int, ...], others: Sequence[int]) -> Bool[np.ndarray, "u v"]:
    """The patch around the place, in a plane."""
    mask, parts = np.zeros(size, bool), []
    for other in others:
        begin = look.begin[other] + (look.place[other] - look.begin[other]) // look.patch * look.patch
        parts.append(slice(max(0, begin), begin + look.patch))
    mask[tuple(parts)] = True
    return mask


def beside(planes: Sequence[UInt8[np.ndarray, "_ _ 3"]], spacing: tuple[float, float, float]) -> UInt8[np.ndarray, "h w 3"]:
    """The three planes as radiologists look at them, in one image."""
    drawn = [finish(plane, spacing, axis) for axis, plane in enumerate(planes)]
    whole = np.zeros((max(len(one) for one in drawn), sum(one.shape[1] + GAP for one in drawn) - GAP, 3), np.uint8)
    left = 0
    for one in drawn:
        top = (len(whole) - len(one)) // 2
        whole[top : top + len(one), left : left + one.shape[1]] = one
        left += one.shape[1] + GAP
    return whole


def name_maps(look: VoxelLook, *, layer: int | None, head: int | None) -> Iterator[tuple[str, str, Float[Tensor, "i j l"]]]:
    """File name, words and map of each: every layer as the mean over its heads, and the heads of one, by default the last."""
    for number, maps in enumerate(look.layers):
        yield f"layer_{number}", f"What the framed patch reads, layer {number}, mean over the heads", maps.mean(0)
    chosen = len(look.layers) - 1 if layer is None else layer
    for number, one in enumerate(look.layers[chosen]):
        if head is None or number == head:
            yield f"layer_{chosen}_head_{number}", f"Layer {chosen}, head {number}", one


def show_volume(number: int, shown: ExplainedVolume, about: Choice) -> Section:
    folder, look = f"volume_{number}", shown.look
    maps = list(name_maps(look, layer=about.layer, head=about.head))
    highest = scale_end(np.concatenate([one.numel() * one.numpy().ravel() for _, _, one in maps]))
    three = range(3)
    figures = {
        "labels": (
            "The label of each voxel",
            beside([label_plane(shown, about.colors, axis) for axis in three], shown.spacing),
        ),
        "unsure": (
            "How unsure it is: entropy, yellow where it knows nothing",
            beside([unsure_plane(shown, axis) for axis in three], shown.spacing),
        ),
    }
    for name, words, one in maps:
        figures[name] = (words, beside([map_plane(shown, one, highest, axis) for axis in three], shown.spacing))
    there = [one for one in np.unique(shown.classes).tolist() if one]
    at = ", ".join(f"{plane} {slice_}" for plane, slice_ in zip(PLANES, look.place, strict=True))
    note = (
        f"Slices {at}, through a voxel of {about.labels[int(shown.classes[look.place])]}. Of what it reads yellow is {highest:g} times an "
        f"even share, or more. As radiologists look at them: the patient's right is on the left."
    )
    linked, files = link_figures(figures, folder, kind="scenes")
    legend = Legend([ClassName(about.labels[one], about.colors[one]) for one in there])
    none = Paragraph("Nothing but background was found.", "note")
    card = templates_of(__file__).render("volume.html", legend=legend if there else none, note=note, figures=linked)
    return Section(f"Volume {number}", [Paragraph(Label(shown.name)), card], files=files)
