"""Pictures of the data as small files, for showing in a page."""

import io

import numpy as np
from jaxtyping import UInt8
from PIL import Image

LARGEST = 160  # pixels of the longer side; smaller pictures keep their own size, and the page enlarges them
PIXELATED = 64  # up to here a picture is enlarged with its pixels visible
EXACT = 32  # up to here every pixel is kept; beyond, a JPEG is taken where it is the smaller file
QUALITY = 88
QUALITIES = (95, 88, 75, 50, 30)  # of pictures to be compared


def as_color(image: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "h w 3"]:
    """A gray image with its one channel three times; a color image as it is."""
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def encode_picture(picture: UInt8[np.ndarray, "h w c"], *, largest: int = LARGEST) -> bytes:
    """A gray (c = 1) or color (c = 3) picture as the bytes of a PNG or JPEG file, its longer side at most `largest`."""
    image = to_image(picture)
    image.thumbnail((largest, largest), Image.Resampling.LANCZOS)
    exact = _save(image, "PNG", optimize=True)
    if max(image.size) <= EXACT:
        return exact
    return min(exact, _to_jpeg(image), key=len)


def encode_jpeg(picture: UInt8[np.ndarray, "h w 3"]) -> bytes:
    """A picture of many colors, at its own size: to try a PNG would take ten times as long."""
    return _to_jpeg(Image.fromarray(picture))


def encode_faithful(picture: UInt8[np.ndarray, "h w c"], *, budget: int) -> bytes:
    """A picture whose pixels are to be compared, at its own size: without loss where that fits into `budget` bytes, else as the JPEG
    file of the highest quality that does, or of the lowest that is tried."""
    image = to_image(picture)
    exact = _save(image, "WEBP", lossless=True, quality=40, method=2) if picture.nbytes <= 6 * budget else b""  # else hopeless
    if 0 < len(exact) <= budget:
        return exact
    files = (_to_jpeg(image, quality) for quality in QUALITIES)
    return next((file for file in files if len(file) <= budget), _to_jpeg(image, QUALITIES[-1]))


def encode_exact(picture: UInt8[np.ndarray, "h w c"]) -> bytes:
    """A small picture as PNG, every pixel as it is."""
    return _save(to_image(picture), "PNG", optimize=True)


def to_image(picture: UInt8[np.ndarray, "h w c"]) -> Image.Image:
    if picture.shape[-1] not in (1, 3):
        raise ValueError(f"a picture has 1 or 3 channels: got {picture.shape[-1]}")
    return Image.fromarray(np.ascontiguousarray(picture.squeeze(-1) if picture.shape[-1] == 1 else picture))


def _to_jpeg(image: Image.Image, quality: int = QUALITY) -> bytes:
    return _save(image, "JPEG", quality=quality, subsampling=0)  # not optimize: Pillow's buffer for that is too small for noise


def _save(image: Image.Image, kind: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def is_small(picture: UInt8[np.ndarray, "h w c"]) -> bool:
    """Whether the pixels of this picture should be seen when it is enlarged."""
    return bool(max(picture.shape[:2]) <= PIXELATED)
