"""Where the shapes of a scene stand, so that its class, its boxes and its caption are beyond dispute.

What is promised, and checked on the pixels before a layout is handed out:
- the main shape, the first, has at least 1.5 times the visible area of any other, and the second 1.15 times that of the rest;
- no shape leaves the image, and others hide at most an eighth of it and a tenth of its box's sides;
- it is plain whether the main shape is left of, right of, above or below the second;
- a small shape is at most 0.44 and a large one at least 0.54 of the image's shorter side: nothing is drawn in between.

h, w: height and width in pixels
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int32, UInt8

from vitrail.data.shape_drawing import KINDS, outline, rasterize

Box = tuple[float, float, float, float]
"""x0 y0 x1 y1 in pixels; x1 and y1 are the far edges of the last pixels."""

EXTENTS = ("small", "large")
RELATIONS = ("left of", "right of", "above", "below")
LENGTHS = {"small": (0.36, 0.44), "large": (0.54, 0.74)}  # of the main shape's box, as a share of the image's shorter side
MAIN_LEAD, SECOND_LEAD = 1.5, 1.15
MOST_HIDDEN, MOST_CUT = 0.125, 0.1
_LEAST_AREA = 4  # pixels
_PLACES, _LAYOUTS = 24, 2000  # tries


@dataclass(kw_only=True, slots=True)
class Piece:
    """One shape cut to size, and where it was put."""

    kind: int
    extent: str
    coverage: UInt8[np.ndarray, "patch_h patch_w"]
    solid: Bool[np.ndarray, "patch_h patch_w"]
    whole: int  # pixels, hidden ones too
    area: int  # visible pixels
    box: Box  # of the visible pixels, once the layout is finished
    row: int = 0
    column: int = 0

    def window(self) -> tuple[slice, slice]:
        """The part of the image that its patch covers."""
        height, width = self.solid.shape
        return slice(self.row, self.row + height), slice(self.column, self.column + width)


def relation(first: Box, second: Box) -> str | None:
    """How the first box stands to the second, by their centers; None where people could disagree."""
    across, down = (second[i] + second[i + 2] - first[i] - first[i + 2] for i in (0, 1))  # twice the distance of the centers
    axis = 0 if abs(across) > abs(down) else 1
    far, near = (across, down) if axis == 0 else (down, across)
    sides = first[axis + 2] - first[axis] + second[axis + 2] - second[axis]
    if abs(far) < 2 * abs(near) or abs(far) < 0.75 * sides:  # too diagonal, or too much beside each other
        return None
    return RELATIONS[2 * axis + int(far < 0)]


def _box_around(solid: Bool[np.ndarray, "h w"], *, row: int = 0, column: int = 0) -> Box:
    """Box of the true pixels of a patch whose upper left corner is at (row, column); there must be some."""
    columns, rows = np.flatnonzero(solid.any(axis=0)), np.flatnonzero(solid.any(axis=1))
    return float(columns[0] + column), float(rows[0] + row), float(columns[-1] + 1 + column), float(rows[-1] + 1 + row)


def _cut(rng: np.random.Generator, kind: int, *, length: float, most_area: float, short: int) -> Piece:
    """A shape of about that length in pixels: less where its area would be too large, or the length neither small nor large."""
    polygons, unit_area = outline(KINDS[kind], turn=rng.uniform(-1, 1))
    length = min(length, (most_area / unit_area) ** 0.5)
    if LENGTHS["small"][1] * short < length < LENGTHS["large"][0] * short:
        length = LENGTHS["small"][1] * short
    coverage = rasterize(polygons, length=length, offset=(rng.random(), rng.random()))
    solid = coverage >= 128
    extent = EXTENTS[int(length > LENGTHS["small"][1] * short)]
    whole = int(np.count_nonzero(solid))
    return Piece(kind=kind, extent=extent, coverage=coverage, solid=solid, whole=whole, area=whole, box=(0.0, 0.0, 0.0, 0.0))


def _place(
    rng: np.random.Generator, piece: Piece, *, before: Sequence[Piece], instances: Int32[np.ndarray, "h w"], in_front: bool
) -> bool:
    """Put a piece where it hides little and is little hidden; False if no such place was met."""
    margin = max(1, min(instances.shape) // 32)
    free = [side - own - 2 * margin for side, own in zip(instances.shape, piece.solid.shape, strict=True)]
    if min(free) < 0 or piece.whole < _LEAST_AREA:
        return False
    x0, y0, x1, y1 = _box_around(piece.solid)
    for down, across in rng.random((_PLACES, 2)).tolist():
        piece.row, piece.column = margin + int(down * (free[0] + 1)), margin + int(across * (free[1] + 1))
        box = (x0 + piece.column, y0 + piece.row, x1 + piece.column, y1 + piece.row)
        if len(before) == 1 and relation(before[0].box, box) is None:
            continue
        window = instances[piece.window()]
        under = np.bincount(window[piece.solid], minlength=len(before) + 1).tolist()
        if in_front:  # those before it hide the new one
            fits = under[0] >= (1 - MOST_HIDDEN) * piece.whole
        else:
            fits = all(old.area - hit >= (1 - MOST_HIDDEN) * old.whole for old, hit in zip(before, under[1:], strict=True))
        if fits:
            window[piece.solid & (window == 0) if in_front else piece.solid] = len(before) + 1
            piece.box = box
            piece.area = under[0] if in_front else piece.whole
            for old, hit in zip(before, under[1:], strict=True):
                old.area -= 0 if in_front else hit
            return True
    return False


def _is_clear(pieces: Sequence[Piece], instances: Int32[np.ndarray, "h w"]) -> bool:
    """Set the boxes to what is visible, and check the promises above."""
    for number, piece in enumerate(pieces, start=1):
        whole = piece.box
        piece.box = _box_around(instances[piece.window()] == number, row=piece.row, column=piece.column)
        if any(piece.box[i + 2] - piece.box[i] < (1 - MOST_CUT) * (whole[i + 2] - whole[i]) for i in (0, 1)):
            return False
    areas = [piece.area for piece in pieces]
    if len(areas) > 1 and (areas[0] < MAIN_LEAD * max(areas[1:]) or relation(pieces[0].box, pieces[1].box) is None):
        return False
    return len(areas) < 3 or areas[1] >= SECOND_LEAD * max(areas[2:])


def arrange(
    rng: np.random.Generator, kinds: Sequence[int], *, size: tuple[int, int], main_extent: str, in_front: bool
) -> tuple[list[Piece], Int32[np.ndarray, "h w"]]:
    """Pieces of these kinds, the main one first, and the map of who is visible: 0 the ground, 1 + index of a piece.

    Each piece stands behind those before it if `in_front`, so that the main one is in front; otherwise before them.
    """
    short = min(size)
    low, high = (share * short for share in LENGTHS[main_extent])
    for attempt in range(_LAYOUTS):
        pieces: list[Piece] = []
        instances = np.zeros(size, dtype=np.int32)
        room = max(0.35, 0.93 ** (attempt + 2 * len(kinds) - 2))  # a crowd that finds no place tries with smaller shapes
        main_length = low + (high - low) * rng.random() * room
        most_area = np.inf
        for index, kind in enumerate(kinds):
            length = main_length * (0.85 if index else 1.0)
            share = rng.uniform(0.6, 1) * (room if index == 1 else 1.0)
            piece = _cut(rng, kind, length=length, most_area=share * most_area, short=short)
            if not _place(rng, piece, before=pieces, instances=instances, in_front=in_front):
                break
            pieces.append(piece)
            if index < 2:
                most_area = piece.whole * (1 - MOST_HIDDEN) / (SECOND_LEAD if index else MAIN_LEAD)
        else:
            if _is_clear(pieces, instances):
                return pieces, instances
    raise AssertionError(f"no clear layout of kinds {kinds} at {size}")
