"""Data with boxes: COCO JSON, Pascal VOC, YOLO text and the built-in `shapes`, and what is marked in an image of any of them.

n images
"""

import numpy as np
from jaxtyping import Int64

from vitrail.data.annotations import Annotations
from vitrail.data.dataset import DataSet, Split, origin, whole_of, wholes_of
from vitrail.data.examples import spread
from vitrail.data.formats.marks import MarkedSplit
from vitrail.data.masked import annotations_of
from vitrail.data.opening import find_data
from vitrail.data.shapes import ShapesSplit
from vitrail.errors import VitrailError

COUNTED = 1000  # images that are drawn to count what is in them


def find_boxes(source: str, *, image_size: tuple[int, int] | None = None) -> DataSet:
    """The data as it lies there, if boxes are marked in it."""
    data = find_data(source, image_size=image_size)
    if not all(isinstance(whole_of(split), MarkedSplit | ShapesSplit) for split in data.splits.values()):
        raise VitrailError(
            f"{data.name}: no boxes are marked in its images; --task detect learns from COCO JSON, Pascal VOC, YOLO text or shapes"
        )
    return data


def read_marks(split: Split, index: int) -> Annotations:
    """The boxes of an image, without its mask. Raises ImageError for a file that cannot be read, or is of another size than its marks."""
    return annotations_of(split, index, mask=False)


def count_objects(split: Split) -> Int64[np.ndarray, "n"]:
    """Objects of each image, by what the files say; of images that are drawn, in a thousand of them."""
    if isinstance(whole_of(split), MarkedSplit):
        found = (origin(split, index) for index in range(len(split)))
        return np.array(
            [len(whole.marks[index].classes) for whole, index in found if isinstance(whole, MarkedSplit)], dtype=np.int64
        )
    return np.array([len(read_marks(split, index).classes) for index in spread(len(split), COUNTED)], dtype=np.int64)


def list_problems(data: DataSet) -> list[str]:
    """The boxes, or other marks, that a reader has mended or left out, a line each."""
    whole = {id(found): found for split in data.splits.values() for found in wholes_of(split)}
    return [line for split in whole.values() for line in getattr(split, "problems", ())]
