"""Boxes as a file states them, the rules that mend them, and the split that COCO, VOC and YOLO share.

A box is clipped to its image. One that has no area, lies outside, is no number or has no known class is left out. Each of
these is a line in the split's `problems`; a box that leaves the image by a pixel or less is rounding, and not worth one.

n boxes, m images, k classes, h w image
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from vitrail.data.annotations import AnnotatedSplit, Annotations, Frame, annotate, mask_type, read_frame
from vitrail.data.formats.classes import mark_present
from vitrail.data.formats.outlines import Outline, Runs, fill_outline
from vitrail.data.images import ImageError
from vitrail.errors import VitrailError

GROUND = "background"  # the name of number 0 in masks that are made of objects


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Marks:
    """The objects of one image, as its file states them: on an image of `size`, or in shares of its sides without one."""

    boxes: Float32[np.ndarray, "n 4"]  # x0 y0 x1 y1
    classes: Int64[np.ndarray, "n"]
    crowd: Bool[np.ndarray, "n"]
    difficult: Bool[np.ndarray, "n"]
    outlines: tuple[Outline | None, ...] = ()  # n, or none at all
    size: tuple[int, int] | None = None  # height, width
    shares: bool = False


def check_boxes(
    boxes: Float64[np.ndarray, "n 4"],
    limits: Float64[np.ndarray, "n 2"],
    *,
    describe: Callable[[int], str],
    slack: float = 1.0,
) -> tuple[Float64[np.ndarray, "n 4"], Bool[np.ndarray, "n"], list[str]]:
    """Boxes clipped to their images (height and width, infinite where unknown), which of them remain, and what was wrong."""
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(boxes).all(axis=1)
        solid = finite & (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        high = limits[:, [1, 0, 1, 0]]
        clipped = np.minimum(np.maximum(boxes, 0.0), high)
        inside = solid & (clipped[:, 2] > clipped[:, 0]) & (clipped[:, 3] > clipped[:, 1])
        far = inside & (np.abs(clipped - boxes) > slack).any(axis=1)
    problems = []
    for number in np.flatnonzero(~inside | far).tolist():
        fault = (
            "is not made of numbers: left out" if not finite[number]
            else "has no area: left out" if not solid[number]
            else "lies outside the image: left out" if not inside[number]
            else "reaches outside the image: clipped"
        )  # fmt: skip
        shown = ", ".join(f"{value:g}" for value in boxes[number])
        problems.append(f"{describe(number)}: the box ({shown}) {fault}")
    return clipped, inside, problems


class MarkedSplit(AnnotatedSplit):
    """Images whose objects are known from files beside them. Masks number the ground 0, and class c 1 + c."""

    def __init__(
        self,
        paths: Sequence[Path],
        marks: Sequence[Marks],
        *,
        classes: Sequence[str],
        problems: Sequence[str] = (),
        ids: Sequence[int | str] | None = None,
        kinds: Sequence[int] | None = None,
    ) -> None:
        """`ids` of the images and `kinds` of the classes are what a file calls them, where it does (COCO)."""
        present = mark_present([entry.classes.tolist() for entry in marks], len(classes))
        super().__init__(paths, present, mask_classes=(GROUND, *classes), problems=problems)
        self.marks = list(marks)
        self.ids: Sequence[int | str] = range(len(self.marks)) if ids is None else tuple(ids)
        self.kinds: Sequence[int] = range(len(classes)) if kinds is None else tuple(kinds)

    def annotations(self, index: int, *, mask: bool = True) -> Annotations:
        marks, frame = self.marks[index], read_frame(self.paths[index])
        try:
            turned = frame.turned(marks.size)
            drawn = self.draw_mask(index, frame) if mask else None
        except ImageError:
            raise
        except VitrailError as error:
            raise ImageError(self.name(index), str(error)) from None
        height, width = frame.size
        sides = np.array([width, height, width, height], dtype=np.float32)
        boxes = frame.turn_boxes(marks.boxes) if turned else marks.boxes * sides if marks.shares else marks.boxes
        boxes = boxes.clip(0, sides)  # a file may state no size
        found = annotate(boxes, marks.classes, crowd=marks.crowd.tolist(), difficult=marks.difficult.tolist(), mask=drawn)
        return found.select((boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1]))

    def draw_mask(self, index: int, frame: Frame) -> np.ndarray | None:
        """The objects' outlines as one mask, small ones in front of large ones; None where no object has an outline."""
        marks = self.marks[index]
        if not any(outline is not None for outline in marks.outlines):
            return None
        turned = frame.turned(marks.size)
        canvas = frame.stored if turned else frame.size
        scale = np.array(canvas[::-1] if marks.shares else (1, 1), dtype=np.float32)
        covers = []
        for outline, number in zip(marks.outlines, marks.classes.tolist(), strict=True):
            if isinstance(outline, Runs) and outline.size != canvas:
                raise VitrailError(f"run lengths of {outline.size[1]}x{outline.size[0]} pixels, it has {canvas[1]}x{canvas[0]}")
            if outline is not None:
                scaled = outline if isinstance(outline, Runs) else tuple(corners * scale for corners in outline)
                covered = fill_outline(scaled, canvas)
                covers.append((int(covered.sum()), 1 + number, np.packbits(covered)))  # bits: there may be hundreds
        mask = np.zeros(canvas, dtype=mask_type(len(self.mask_classes)))
        for _, number, bits in sorted(covers, key=lambda cover: -cover[0]):
            mask[np.unpackbits(bits, count=mask.size).reshape(canvas).astype(bool)] = number
        return frame.turn_mask(mask) if turned else mask
