"""What is marked in an image: boxes with classes, and a mask of class numbers. Every number speaks of the upright image.

Tools disagree on what their pixels mean where a photo carries an EXIF orientation: some draw on the upright image, some on
the pixels as stored. The size an annotation file states tells which: if it is the upright size, nothing is to be done; if it
is the stored size and not the upright one, boxes and masks are turned with the image; if it is neither, the annotations
are of another image, and it is refused. Sizes cannot tell turns by 180 degrees and mirrored photos: those count as upright.

n objects, h w image
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int32, Int64, UInt8
from PIL import Image

from vitrail.data.dataset import FileSplit
from vitrail.data.images import TURNS, find_orientation, open_image
from vitrail.errors import VitrailError

Mask = UInt8[np.ndarray, "h w"] | Int32[np.ndarray, "h w"]
IGNORE = -1  # of a pixel that belongs to no class, in what a model learns from
SWAPPED = 5  # EXIF's orientations from here on swap height and width


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Annotations:
    """The objects of one image. A mask gives every pixel a class number, or `ignore_index` where nobody has decided."""

    boxes: Float32[np.ndarray, "n 4"]  # x0 y0 x1 y1, pixels
    classes: Int64[np.ndarray, "n"]
    crowd: Bool[np.ndarray, "n"]  # a box around many objects at once (COCO)
    difficult: Bool[np.ndarray, "n"]  # not to be held against a detector that misses it (VOC)
    mask: Mask | None = None

    def select(self, kept: np.ndarray, boxes: np.ndarray | None = None) -> "Annotations":
        """Some of the objects, by number or truth; `boxes` (of all n) replace those there are."""
        boxes = self.boxes if boxes is None else boxes.astype(np.float32)
        return Annotations(
            boxes=boxes[kept],
            classes=self.classes[kept],
            crowd=self.crowd[kept],
            difficult=self.difficult[kept],
            mask=self.mask,
        )


def annotate(
    boxes: Sequence[Sequence[float | int]] | np.ndarray = (),
    classes: Sequence[int] | np.ndarray = (),
    *,
    crowd: Sequence[bool] | None = None,
    difficult: Sequence[bool] | None = None,
    mask: np.ndarray | None = None,
) -> Annotations:
    """Annotations from plain lists; nothing is crowded or difficult unless said so."""
    count = len(classes)
    return Annotations(
        boxes=np.asarray(boxes, dtype=np.float32).reshape(count, 4),
        classes=np.asarray(classes, dtype=np.int64).reshape(count),
        crowd=np.zeros(count, dtype=bool) if crowd is None else np.asarray(crowd, dtype=bool),
        difficult=np.zeros(count, dtype=bool) if difficult is None else np.asarray(difficult, dtype=bool),
        mask=mask,
    )


def ignore_index(mask: np.ndarray) -> int:
    """The number of pixels that belong to no class: 255 where a mask is of bytes, -1 where classes need more than a byte."""
    return 255 if mask.dtype == np.uint8 else -1


def mask_type(classes: int) -> type[np.uint8] | type[np.int32]:
    """Bytes hold up to 255 classes beside the ignore index."""
    return np.uint8 if classes <= 255 else np.int32


class Frame(NamedTuple):
    """How an image file's pixels lie: read from its header, without decoding it."""

    stored: tuple[int, int]  # height, width
    orientation: int = 1  # EXIF's

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the upright image."""
        return (self.stored[1], self.stored[0]) if self.orientation >= SWAPPED else self.stored

    def turned(self, declared: tuple[int, int] | None) -> bool:
        """Whether annotations made for a size are drawn on the stored pixels. A size that is neither is refused."""
        if declared is None or declared == self.size:
            return False
        if declared == self.stored:
            return True
        made, found = (f"{size[1]}x{size[0]}" for size in (declared, self.size))
        raise VitrailError(f"its annotations were made for {made} pixels, it has {found}")

    def turn_boxes(self, boxes: Float32[np.ndarray, "n 4"]) -> Float32[np.ndarray, "n 4"]:
        """Boxes on the stored pixels as boxes on the upright image."""
        height, width = self.stored
        x, y = boxes[:, 0::2], boxes[:, 1::2]
        x, y = {5: (y, x), 6: (height - y, x), 7: (height - y, width - x), 8: (y, width - x)}[self.orientation]
        return np.stack([x.min(1), y.min(1), x.max(1), y.max(1)], axis=1)

    def turn_mask(self, mask: np.ndarray) -> np.ndarray:
        """A mask on the stored pixels as one on the upright image."""
        return np.array(Image.fromarray(mask).transpose(TURNS[self.orientation]))


def read_frame(source: Path | bytes, *, name: str | None = None) -> Frame:
    """The frame of an image file; one ImageError if it is none."""
    with open_image(source, name=name) as image:
        orientation, size = find_orientation(image), (image.height, image.width)
        if image.format == "TIFF" and orientation >= SWAPPED:
            size = size[::-1]  # Pillow states a TIFF's upright size
        return Frame(size, orientation)


class AnnotatedSplit(FileSplit):
    """Images with annotations. As labels they have the classes that occur in them: n k booleans.

    `mask_classes` names the numbers of masks. `problems` are the annotations that were mended or left out, a line each.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        labels: Bool[np.ndarray, "n k"],
        *,
        mask_classes: Sequence[str] = (),
        problems: Sequence[str] = (),
    ) -> None:
        super().__init__(paths, labels)
        self.mask_classes, self.problems = tuple(mask_classes), tuple(problems)

    def annotations(self, index: int, *, mask: bool = True) -> Annotations:
        """What is marked in an image; its mask only where there is one, and it is asked for."""
        raise NotImplementedError
