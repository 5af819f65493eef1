"""Boxes drawn on an image: a frame each, with its name in a tag of the same color.

n boxes
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import matplotlib
from PIL import Image, ImageDraw, ImageFont

from vitrail.rendering import shorten

COLORS = (
    "#3cb44b", "#4363d8", "#911eb4", "#008080", "#f032e6", "#9a6324", "#808000", "#000075", "#bf9b00", "#469990",
)  # fmt: skip  # of classes, one after the other, then again from the first; red and orange are for what is wrong and what was missed
LEAST = 320  # pixels of the longer side below which an image is enlarged, so that names can be read
NAME = 24  # letters of a name, at most


class Drawn(NamedTuple):
    """One box: x0 y0 x1 y1 in pixels of the image, its color, and what its tag says, if anything."""

    box: Sequence[float]
    color: str
    words: str = ""
    dashed: bool = False


def class_color(number: int) -> str:
    return COLORS[number % len(COLORS)]


def draw_boxes(image: Image.Image, boxes: Sequence[Drawn], *, least: int = LEAST) -> Image.Image:
    """The image in color with its boxes, the last one in front; a small image is enlarged first, by a whole factor."""
    factor = max(1, -(-least // max(image.size)))
    shown = image.convert("RGB").resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    pen = ImageDraw.Draw(shown)
    thick = max(2, round(max(shown.size) / 240))
    font = find_font(max(10, round(max(shown.size) / 40)))
    for one in boxes:
        x0, y0, x1, y1 = (round(factor * value) for value in one.box)
        corners = (x0, y0, max(x0, x1 - 1), max(y0, y1 - 1))
        if one.dashed:
            dash(pen, corners, one.color, thick)
        else:
            pen.rectangle(corners, outline=one.color, width=thick)
        if one.words:
            tag(pen, (x0, y0), shorten(one.words, NAME), one.color, font, shown.size)
    return shown


def dash(pen: ImageDraw.ImageDraw, corners: tuple[int, int, int, int], color: str, thick: int) -> None:
    """A frame of dashes, three times as long as it is thick and more."""
    x0, y0, x1, y1 = corners
    step = 4 * thick + 2
    for start in range(x0, x1 + 1, 2 * step):
        for y in (y0, y1):
            pen.line((start, y, min(x1, start + step), y), fill=color, width=thick)
    for start in range(y0, y1 + 1, 2 * step):
        for x in (x0, x1):
            pen.line((x, start, x, min(y1, start + step)), fill=color, width=thick)


def tag(
    pen: ImageDraw.ImageDraw,
    corner: tuple[int, int],
    words: str,
    color: str,
    font: ImageFont.FreeTypeFont,
    size: tuple[int, int],
) -> None:
    """White on the box's color, above the box where there is room, and inside the image."""
    left, top, right, bottom = font.getbbox(words)
    width, height = round(right - left) + 4, round(bottom - top) + 4
    x = max(0, min(corner[0], size[0] - width))
    y = corner[1] - height if corner[1] >= height else corner[1]
    pen.rectangle((x, y, x + width, y + height), fill=color)
    pen.text((x + 2 - left, y + 2 - top), words, fill="white", font=font)


@lru_cache(maxsize=32)
def find_font(size: int) -> ImageFont.FreeTypeFont:
    """The font that comes with matplotlib, which has more alphabets than Pillow's own."""
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)
