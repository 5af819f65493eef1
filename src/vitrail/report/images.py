"""Images of the data as small files, for showing in a page."""

import io

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from vitrail.explain.figures.overlay import scale
from vitrail.report.parts import Photograph, Scale

LARGEST = 160  # pixels of the longer side; smaller images keep their own size, and the page enlarges them
PIXELATED = 64  # up to here an image is enlarged with its pixels visible
EXACT = 32  # up to here every pixel is kept; beyond, a JPEG is taken where it is the smaller file
QUALITY = 88
QUALITIES = (95, 88, 75, 50, 30)  # of images to be compared


def as_color(image: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "h w 3"]:
    """A gray image with its one channel three times; a color image as it is."""
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def encode_image(image: UInt8[np.ndarray, "h w c"], *, largest: int = LARGEST) -> bytes:
    """A gray (c = 1) or color (c = 3) image as the bytes of a PNG or JPEG file, its longer side at most `largest`."""
    small = to_pil(image)
    small.thumbnail((largest, largest), Image.Resampling.LANCZOS)
    exact = _save(small, "PNG", optimize=True)
    if max(small.size) <= EXACT:
        return exact
    return min(exact, _to_jpeg(small), key=len)


def encode_jpeg(image: UInt8[np.ndarray, "h w 3"]) -> bytes:
    """An image of many colors, at its own size: to try a PNG would take ten times as long."""
    return _to_jpeg(Image.fromarray(image))


def encode_faithful(image: UInt8[np.ndarray, "h w c"], *, budget: int) -> bytes:
    """An image whose pixels are to be compared, at its own size: without loss where that fits into `budget` bytes, else as the JPEG
    file of the highest quality that does, or of the lowest that is tried."""
    whole = to_pil(image)
    exact = _save(whole, "WEBP", lossless=True, quality=40, method=2) if image.nbytes <= 6 * budget else b""  # else hopeless
    if 0 < len(exact) <= budget:
        return exact
    files = (_to_jpeg(whole, quality) for quality in QUALITIES)
    return next((file for file in files if len(file) <= budget), _to_jpeg(whole, QUALITIES[-1]))


def encode_exact(image: UInt8[np.ndarray, "h w c"]) -> bytes:
    """A small image as PNG, every pixel as it is."""
    return _save(to_pil(image), "PNG", optimize=True)


def to_pil(image: UInt8[np.ndarray, "h w c"]) -> Image.Image:
    if image.shape[-1] not in (1, 3):
        raise ValueError(f"an image has 1 or 3 channels: got {image.shape[-1]}")
    return Image.fromarray(np.ascontiguousarray(image.squeeze(-1) if image.shape[-1] == 1 else image))


def _to_jpeg(image: Image.Image, quality: int = QUALITY) -> bytes:
    return _save(image, "JPEG", quality=quality, subsampling=0)  # not optimize: Pillow's buffer for that is too small for noise


def _save(image: Image.Image, kind: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def is_small(image: UInt8[np.ndarray, "h w c"]) -> bool:
    """Whether the pixels of this image should be seen when it is enlarged."""
    return bool(max(image.shape[:2]) <= PIXELATED)


def share_scale(highest: float) -> Scale:
    """The legend of maps in times an even share."""
    return Scale(
        Photograph(encode_image(scale(highest)), "scale from nothing to much"), f"{highest:g} times an even share, or more"
    )
