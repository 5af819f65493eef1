"""A contact sheet: a few images of every class in rows, and below them images that occur twice, side by side."""

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import matplotlib
from PIL import Image, ImageDraw, ImageFont, ImageOps

from vitrail.rendering import BLUE, INK, ORANGE, STRONG, shorten

CELL, GAP, MARGIN, TITLE = 96, 6, 20, 190  # pixels: an image's square, between them, around, and the column of names
ACROSS = 8  # images a row
PAIRS = 4  # pairs a row
CAPTION = 34  # pixels below a pair


class Row(NamedTuple):
    """One class."""

    title: str
    note: str
    images: Sequence[Image.Image]


class Twins(NamedTuple):
    """Two images that are one."""

    caption: str
    note: str
    first: Image.Image
    second: Image.Image


def draw_contact_sheet(heading: str, rows: Sequence[Row], twins: Sequence[Twins] = ()) -> Image.Image:
    """The sheet, as wide as ACROSS images; a row keeps the first ACROSS of its images."""
    width = 2 * MARGIN + TITLE + ACROSS * (CELL + GAP)
    top = MARGIN + 40
    pair_top = top + len(rows) * (CELL + GAP) + 44
    lines = -(-len(twins) // PAIRS)
    height = pair_top + lines * (CELL + CAPTION + GAP) if twins else top + len(rows) * (CELL + GAP)
    sheet = Image.new("RGB", (width, height + MARGIN), "white")
    pen = ImageDraw.Draw(sheet)
    pen.text((MARGIN, MARGIN), shorten(heading, 90), fill=STRONG, font=_font(18))
    for number, row in enumerate(rows):
        y = top + number * (CELL + GAP)
        pen.text((MARGIN, y + CELL / 2 - 20), shorten(row.title, 24), fill=STRONG, font=_font(13))
        pen.text((MARGIN, y + CELL / 2 + 2), shorten(row.note, 26), fill=INK, font=_font(11))
        for column, image in enumerate(row.images[:ACROSS]):
            _place(sheet, image, MARGIN + TITLE + column * (CELL + GAP), y)
    if twins:
        pen.text((MARGIN, pair_top - 30), "Found twice", fill=ORANGE, font=_font(16))
    step = (width - 2 * MARGIN) // PAIRS
    for number, twin in enumerate(twins):
        x, y = MARGIN + number % PAIRS * step, pair_top + number // PAIRS * (CELL + CAPTION + GAP)
        _place(sheet, twin.first, x, y)
        _place(sheet, twin.second, x + CELL + 2, y)
        pen.text((x, y + CELL + 2), shorten(twin.caption, 32), fill=BLUE, font=_font(11))
        pen.text((x, y + CELL + 16), shorten(twin.note, 36), fill=INK, font=_font(10))
    return sheet


def encode_sheet(sheet: Image.Image) -> bytes:
    """The bytes of a PNG file."""
    buffer = io.BytesIO()
    sheet.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def _place(sheet: Image.Image, image: Image.Image, x: int, y: int) -> None:
    """An image in its square, whole, centered; small ones are enlarged with their pixels visible."""
    how = Image.Resampling.NEAREST if max(image.size) <= CELL // 2 else Image.Resampling.LANCZOS
    fitted = ImageOps.contain(image.convert("RGB"), (CELL, CELL), how)
    sheet.paste(fitted, (x + (CELL - fitted.width) // 2, y + (CELL - fitted.height) // 2))


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib: more alphabets than Pillow's own font, the same on every machine."""
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)
