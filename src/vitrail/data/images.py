"""Reading one image: the only place that decodes image files.

Color profiles (ICC) are left out knowingly: they shift colors by a few levels, and models are trained on pixels as stored.
Of an animation or a file of several pages, the first image is read.
"""

import io
import math
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    Jpeg2KImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from vitrail.data.pillow_settings import PIXEL_LIMIT as PIXEL_LIMIT
from vitrail.data.pillow_settings import SETTINGS
from vitrail.errors import VitrailError

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".avif", ".jp2"})
SIDE_LIMIT = 65_535  # JPEG's own; beyond, broken headers are all there is, and some decoders become slow and large
GAP = 1.5  # a JPEG that will be shrunk is decoded at no less than so many times the size wanted (benchmarks/decode.py)
DRAFT_SIDE = 128  # and no smaller than this a side: that its size is rounded would show
ORIENTATION = 0x0112  # EXIF's tag
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # what brings an image upright, by EXIF's orientation; those from 5 on swap height and width


class _Jpeg(JpegImagePlugin.JpegImageFile):
    """A JPEG; of the several in a phone's MPO file the first, which is a JPEG by itself."""

    def _read_dpi_from_exif(self) -> None:
        """Left out: nobody asks for the resolution, and broken EXIF would make a good image unreadable."""


# What is read, by content, whatever the name says. The classes are called directly: Image.open checks a limit of its own.
READERS: dict[str, tuple[re.Pattern[bytes], type[ImageFile.ImageFile]]] = {
    "JPEG": (re.compile(rb"\xff\xd8\xff"), _Jpeg),
    "PNG": (re.compile(rb"\x89PNG\r\n\x1a\n"), PngImagePlugin.PngImageFile),
    "BMP": (re.compile(rb"BM"), BmpImagePlugin.BmpImageFile),
    "GIF": (re.compile(rb"GIF8[79]a"), GifImagePlugin.GifImageFile),
    "WEBP": (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), WebPImagePlugin.WebPImageFile),
    "TIFF": (re.compile(rb"II[*+]\0|MM\0[*+]"), TiffImagePlugin.TiffImageFile),
    "PPM": (re.compile(rb"P[1-6]\s"), PpmImagePlugin.PpmImageFile),
    "AVIF": (re.compile(rb".{4}ftyp(avi[fs]|m[is]f1)", re.DOTALL), AvifImagePlugin.AvifImageFile),
    "JPEG2000": (re.compile(rb"\xff\x4f\xff\x51|\0\0\0\x0cjP  \r\n\x87\n"), Jpeg2KImagePlugin.Jpeg2KImageFile),
}
FORMATS = tuple(READERS)


class ImageError(VitrailError):
    """One image cannot be read: which, and why."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, _one_line(" ".join(reason.split()))
        super().__init__(f"{_one_line(name)}: {self.reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.reason)  # crosses from a worker as it is


def _one_line(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]  # names may hold line breaks and what is no character at all


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageFacts:
    """What an image file is before it is decoded."""

    format: str
    mode: str  # Pillow's, as stored
    size: tuple[int, int]  # height, width, upright


def read_image(source: Path | bytes, *, name: str | None = None, target: tuple[int, int] | None = None) -> Image.Image:
    """The image in gray ("L") or color ("RGB"), upright. Anything that is no such image gives one ImageError.

    `target` (height, width) is the size the image will be brought to: a larger JPEG is then decoded at a lower resolution,
    at least GAP times as large as that and DRAFT_SIDE a side.
    """
    return examine_image(source, name=name, target=target)[0]


def examine_image(
    source: Path | bytes, *, name: str | None = None, target: tuple[int, int] | None = None
) -> tuple[Image.Image, ImageFacts]:
    """`read_image`, and what its file says of itself."""
    with open_image(source, name=name) as image:
        return _decode(image, target)


@contextmanager
def open_image(source: Path | bytes, *, name: str | None = None) -> Iterator[ImageFile.ImageFile]:
    """An image file of one of FORMATS and within the limits, not decoded yet; whatever fails in here is one ImageError."""
    name = name or (str(source) if isinstance(source, Path) else "image")
    kind = ""
    try:
        # A file, not its name: from a name Pillow 13 maps an uncompressed TIFF into memory, and scrambles it if it is to be
        # turned.
        with SETTINGS, _open(source) as file:
            kind = _find_format(file)
            with READERS[kind][1](file) as image:
                _check_size(*image.size)
                yield image
    except VitrailError as error:
        raise ImageError(name, str(error)) from None
    except Image.DecompressionBombError:  # Pillow's own check, see pillow_settings.py
        raise ImageError(name, f"over the limit of {PIXEL_LIMIT:,} pixels") from None
    except Exception as error:  # Pillow's decoders raise whatever they like on broken files
        if not kind and isinstance(error, OSError):
            raise ImageError(name, (error.strerror or str(error)).lower()) from None
        what = f"{type(error).__name__}: {error}"[:200].removesuffix(": ")
        raise ImageError(name, f"cannot be read{kind and f' as {kind}'} ({what})") from None


def to_gray_or_color(image: Image.Image) -> Image.Image:
    """Mode L or RGB: transparency lies on white, of 16 bits the upper 8 are kept."""
    if image.mode == "F":
        raise VitrailError("its pixels are floats, of which nobody says what white is; expected 8 or 16 bits a channel")
    clear = image.info.get("transparency")  # a color, a palette's entry, or the alpha of each of its entries
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise VitrailError(f"its pixels run from {values.min()} to {values.max()}; expected 8 or 16 bits a channel")
        bright = (values >> 8).astype(np.uint8)
        return Image.fromarray(bright if clear is None else np.where(values == clear, np.uint8(255), bright))
    plain, alpha = ("L", "LA") if image.mode in ("1", "L", "LA", "La") else ("RGB", "RGBA")
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or clear is not None:
        layer = image if image.mode == alpha else image.convert(alpha)
        image = Image.new(plain, layer.size, "white")
        image.paste(layer, mask=layer)
        return image
    return image.convert(plain)  # a copy at least: pixels alone, without the file


def find_orientation(image: Image.Image) -> int:
    """EXIF's orientation: 1, upright, unless it is one of TURNS. EXIF that cannot be read says nothing of the pixels."""
    try:
        value = image.getexif().get(ORIENTATION, 1)
    except Exception:
        return 1
    return value if isinstance(value, int) and value in TURNS else 1


def _open(source: Path | bytes) -> io.BytesIO | io.BufferedReader:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    try:
        kind = source.stat().st_mode
    except FileNotFoundError:
        raise VitrailError("no such file") from None
    if stat.S_ISDIR(kind):
        raise VitrailError("a folder, not an image")
    if not stat.S_ISREG(kind):  # opening a pipe would wait for its writer
        raise VitrailError("a pipe or a device, not a file")
    return source.open("rb")


def _find_format(file: io.BytesIO | io.BufferedReader) -> str:
    """Which of READERS takes a file that begins like this."""
    beginning = file.read(16)
    file.seek(0)
    for kind, (signature, _) in READERS.items():
        if signature.match(beginning):
            return kind
    raise VitrailError(f"not an image of a known format ({', '.join(FORMATS)})" if beginning else "an empty file")


def _check_size(width: int, height: int) -> None:
    if width * height > PIXEL_LIMIT:
        raise VitrailError(f"{width}x{height} is over the limit of {PIXEL_LIMIT:,} pixels")
    if max(width, height) > SIDE_LIMIT:
        raise VitrailError(f"{width}x{height} is over the limit of {SIDE_LIMIT:,} pixels a side")


def _decode(image: ImageFile.ImageFile, target: tuple[int, int] | None) -> tuple[Image.Image, ImageFacts]:
    kind, mode, (width, height) = image.format or "", image.mode, image.size
    kept = image.size
    if kind == "JPEG" and target is not None:
        kept = _draft(image, target[::-1] if find_orientation(image) >= 5 else target)
    tile = image.tile[0] if image.tile else None
    image.load()
    orientation = find_orientation(image)  # PNG may store it behind the pixels; TIFF's Pillow has applied, and taken away
    pixels: Image.Image = image
    if kind == "PNG" and tile is not None:
        _mend_transparency(image, str(tile.args))
    elif kind == "TIFF" and mode.startswith("I"):
        pixels = _mend_deep_gray(image)
    pixels = to_gray_or_color(pixels)
    if kind == "GIF" and tile is not None and tile.extents not in (None, (0, 0, width, height)):
        part, pixels = pixels.crop(tile.extents), Image.new(pixels.mode, pixels.size, "white")
        pixels.paste(part, tile.extents)  # the first image need not fill the screen; around it there is nothing
    if kind == "JPEG" and pixels.size != kept:
        pixels = pixels.crop((0, 0, *kept))
    if orientation in TURNS:
        pixels = pixels.transpose(TURNS[orientation])
    pixels.info = {}  # an orientation in there would be applied once more by whoever gets the image
    size = (width, height) if orientation >= 5 else (height, width)
    return pixels, ImageFacts(format=kind, mode=mode, size=size)


def _draft(image: ImageFile.ImageFile, target: tuple[int, int]) -> tuple[int, int]:
    """Let a JPEG be decoded at 1/2, 1/4 or 1/8 of its resolution, as far as GAP times the target (height, width) allows.

    Gives the width and height to keep: where the last row or column holds less than half a row's worth of the image, leaving
    it out distorts the image less than stretching it.
    """
    scale = max(GAP * target[0] / image.height, GAP * target[1] / image.width, DRAFT_SIDE / min(image.size))
    if scale < 1:
        drafted = image.draft(None, (math.ceil(scale * image.width), math.ceil(scale * image.height)))
        if drafted is not None:
            return round(drafted[1][2]), round(drafted[1][3])
    return image.size


def _mend_transparency(image: Image.Image, stored: str) -> None:
    """The transparent color of a PNG, which is stored in the image's own depth, in 8 bits like the pixels.

    Pillow 13 brings the pixels to 8 bits and leaves the color as it is: in 2, 4 or 16 bits it would match nothing.
    """
    clear = image.info.get("transparency")
    if isinstance(clear, int) and stored in ("L;2", "L;4"):
        image.info["transparency"] = (clear & 3) * 85 if stored == "L;2" else (clear & 15) * 17
    elif isinstance(clear, tuple) and stored == "RGB;16B":
        image.info["transparency"] = tuple(value >> 8 for value in clear)


def _mend_deep_gray(image: Image.Image) -> Image.Image:
    """A TIFF's gray of more than 8 bits on the scale of 16 bits, with 0 black: Pillow 13 leaves 12 bits and negatives as stored."""
    if image.mode == "I":
        raise VitrailError("its pixels are 32-bit or signed numbers, of which nobody says what white is; expected 8 or 16 bits")
    tags: Any = getattr(image, "tag_v2", {})
    values = np.asarray(image)
    if tags.get(TiffImagePlugin.BITSPERSAMPLE) == (12,):
        values = values << 4
    if tags.get(TiffImagePlugin.PHOTOMETRIC_INTERPRETATION, 0) == 0:
        values = 65535 - values
    return Image.fromarray(values)
