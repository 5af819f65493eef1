"""A color for each class of a mask: those of the masks' own palette, or some that can be distinguished.

k classes
"""

import colorsys
from collections.abc import Sequence
from pathlib import Path

from vitrail.data.dataset import Split, origin
from vitrail.data.formats.marks import GROUND
from vitrail.data.formats.masks import MaskSplit
from vitrail.data.formats.voc import VOCSplit
from vitrail.data.images import ImageError, open_image
from vitrail.data.masked import find_numbering

Color = tuple[int, int, int]
DARK: Color = (36, 40, 48)  # the ground's, where there is one
# As different as so many can be, light and dark on either ground; beyond them hues by the golden angle.
DISTINCT: tuple[Color, ...] = (
    (230, 60, 60), (60, 130, 230), (255, 196, 20), (50, 170, 80), (160, 70, 200), (245, 130, 40), (70, 215, 225), (240, 90, 190),
    (150, 215, 60), (120, 80, 50), (250, 190, 200), (0, 128, 128), (200, 180, 255), (128, 20, 40), (170, 255, 195), (120, 120, 20),
    (255, 215, 170), (20, 40, 140), (150, 150, 150), (250, 250, 160),
)  # fmt: skip
GOLDEN = 0.618033988749895


def choose_colors(labels: tuple[str, ...]) -> tuple[Color, ...]:
    """For classes of these names; the same each time."""
    ground = bool(labels) and labels[0].lower() in (GROUND, "ground", "void", "unlabeled", "other")
    return ((DARK,) if ground else ()) + tuple(distinct_color(number) for number in range(len(labels) - ground))


def distinct_color(number: int) -> Color:
    if number < len(DISTINCT):
        return DISTINCT[number]
    parts = colorsys.hsv_to_rgb(number * GOLDEN % 1, (0.9, 0.6)[number % 2], (0.95, 0.7, 0.5)[number % 3])
    red, green, blue = (round(255 * part) for part in parts)
    return red, green, blue


def find_colors(split: Split, classes: int) -> tuple[Color, ...] | None:
    """The palette of the first mask file of a split, if each class has a color of its own there; None where masks are gray."""
    numbering = find_numbering(split)
    values = tuple(range(classes)) if numbering is None else numbering.values
    split, index = origin(split, 0)
    if isinstance(split, MaskSplit):
        return read_palette(split.masks[index], values)
    if isinstance(split, VOCSplit) and (file := split.masks.get(split.paths[index].stem)) is not None:
        return read_palette(file, values)
    return None


def read_palette(file: Path, values: Sequence[int]) -> tuple[Color, ...] | None:
    """The colors of these places in it."""
    try:
        with open_image(file) as image:
            found = image.getpalette("RGB") if image.mode == "P" else None
    except ImageError:
        return None
    if found is None or len(found) < 3 * (max(values) + 1):
        return None
    colors = tuple((found[3 * at], found[3 * at + 1], found[3 * at + 2]) for at in values)
    return colors if len(set(colors)) == len(values) else None
