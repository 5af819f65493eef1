"""What an object covers: polygons and run lengths to pixels.

h w image, p corners, r runs
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64

from vitrail.data.formats.reading import as_number
from vitrail.errors import VitrailError

MOST_CORNERS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """COCO's run lengths: pixels column by column, background first, then object, and so on in turns."""

    counts: Int64[np.ndarray, "r"]
    size: tuple[int, int]

    def fill(self) -> Bool[np.ndarray, "h w"]:
        inside = np.arange(len(self.counts)) % 2 == 1
        return np.repeat(inside, self.counts).reshape(self.size[::-1]).T


Polygons = tuple[Float32[np.ndarray, "_ 2"], ...]  # each of its own number of corners
Outline = Polygons | Runs


def fill_polygon(corners: Float32[np.ndarray, "p 2"], size: tuple[int, int]) -> Bool[np.ndarray, "h w"]:
    """The pixels whose centers lie inside a polygon of x y corners, by the even-odd rule.

    Row by row, each edge that crosses the row's middle line changes inside and outside from there on. (Pillow's own polygon
    also paints the pixels its outline touches: a square of four pixels a side becomes five.)
    """
    height, width = size
    changes = np.zeros((height, width + 1), dtype=np.uint8)
    start = corners.astype(np.float64)
    for (x0, y0), (x1, y1) in zip(start, np.roll(start, -1, axis=0), strict=True):
        if y0 > y1:
            x0, y0, x1, y1 = x1, y1, x0, y0
        rows = np.arange(max(0, np.ceil(y0 - 0.5)), min(height, np.ceil(y1 - 0.5)), dtype=np.int64)
        if len(rows):
            crossing = x0 + (rows + 0.5 - y0) * ((x1 - x0) / (y1 - y0))
            changes[rows, np.ceil(crossing - 0.5).clip(0, width).astype(np.int64)] ^= 1
    return np.bitwise_xor.accumulate(changes, axis=1)[:, :-1].astype(bool)


def fill_outline(outline: Outline, size: tuple[int, int]) -> Bool[np.ndarray, "h w"]:
    """The pixels of an object: one or several polygons together, or run lengths."""
    if isinstance(outline, Runs):
        return outline.fill()
    covered = np.zeros(size, dtype=bool)
    for corners in outline:
        covered |= fill_polygon(corners, size)
    return covered


def check_polygon(numbers: list[Any]) -> Float32[np.ndarray, "p 2"]:
    """x y x y … as corners, or an error that says what is wrong."""
    if len(numbers) < 6 or len(numbers) % 2:
        raise VitrailError(f"a polygon needs three corners or more, x and y each: got {len(numbers)} numbers")
    if len(numbers) > 2 * MOST_CORNERS:
        raise VitrailError(f"a polygon of {len(numbers) // 2:,} corners is over the limit of {MOST_CORNERS:,}")
    corners = np.array([as_number(value) for value in numbers], dtype=np.float32).reshape(-1, 2)
    if not np.isfinite(corners).all():
        raise VitrailError("a polygon holds something that is no number")
    return corners


def check_runs(counts: Any, size: Any, image: tuple[int, int] | None) -> Runs:
    """Run lengths of COCO, as a list or in its compressed letters; they must cover the image exactly."""
    if not (isinstance(size, list) and len(size) == 2 and all(type(side) is int and 0 < side <= 10**6 for side in size)):
        raise VitrailError("run lengths need a size [height, width]")
    if image is not None and tuple(size) != image:
        raise VitrailError(f"run lengths are of {size[1]}x{size[0]} pixels, the image has {image[1]}x{image[0]}")
    pixels = size[0] * size[1]
    if isinstance(counts, str):
        counts = _expand(counts, pixels)
    if not isinstance(counts, list) or not all(type(count) is int and 0 <= count <= pixels for count in counts):
        raise VitrailError("run lengths must be whole numbers from 0 up, none larger than the image")
    if sum(counts) != pixels:
        raise VitrailError(f"run lengths add up to {sum(counts)} pixels, not {pixels}")
    return Runs(np.array(counts, dtype=np.int64), (size[0], size[1]))


def _expand(letters: str, pixels: int) -> list[int]:
    """COCO's letters to counts: 5 bits a letter, low ones first, bit 6 "more follow", two's complement; from the third count on
    the difference to the count before the last  [pycocotools, maskApi.c, rleFrString]."""
    counts: list[int] = []
    value = shift = 0
    for letter in letters:
        bits = ord(letter) - 48
        if not 0 <= bits < 64 or shift > 30:
            raise VitrailError("run lengths hold letters that COCO does not write")
        value |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            if bits & 16:
                value -= 1 << shift
            counts.append(value + counts[-2] if len(counts) > 2 else value)
            if not 0 <= counts[-1] <= pixels:
                raise VitrailError("run lengths must be whole numbers from 0 up, none larger than the image")
            value = shift = 0
    if shift:
        raise VitrailError("run lengths end in the middle of a number")
    return counts
