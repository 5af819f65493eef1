"""Moving an image, its boxes and its mask together. Chance is a function of (seed, epoch, sample index) and of nothing else.

A mask is read at the nearest pixel, and is of no class (`ignore_index`) where the image ends. A box becomes the hull of its
moved corners, clipped to the image; an object of which less than VISIBLE of that hull's area is left is dropped, since nobody
could tell it by what remains. Coordinates are continuous: pixel (row r, column c) covers c to c + 1 and r to r + 1.

n objects, h w image
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Float32
from PIL import Image, ImageEnhance

from vitrail.data.annotations import Annotations, ignore_index
from vitrail.data.randomness import uniforms
from vitrail.data.transforms import RESAMPLING
from vitrail.errors import VitrailError

VISIBLE = 0.1
Color = int | tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """An image ("L" or "RGB") and what is marked in it."""

    image: Image.Image
    annotations: Annotations

    def __post_init__(self) -> None:
        mask = self.annotations.mask
        if mask is not None and mask.shape != (self.image.height, self.image.width):
            raise ValueError(f"a mask of shape {mask.shape} on an image of {(self.image.height, self.image.width)}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Movement:
    """How far a sample may be changed; all zero leaves it alone."""

    flip: bool = False  # left and right, half of the time
    flip_vertical: bool = False  # top and bottom, half of the time
    quarter_turns: bool = False  # by 0, 90, 180 or 270 degrees
    shift: float = 0.0  # share of a side, each way
    rotate: float = 0.0  # degrees, each way
    zoom: float = 0.0  # 0.1: by a factor between 1/1.1 and 1.1
    color: float = 0.0  # 0.4: brightness, contrast and saturation by factors between 0.6 and 1.4


def move(sample: Sample, how: Movement, *, seed: int, epoch: int, index: int, fill: Color = 0) -> Sample:
    """A random change within `how`."""
    draws = uniforms(seed, epoch, np.array([index]), count=10)[0].tolist()
    signed = [2 * draw - 1 for draw in draws]
    if how.flip and draws[0] < 0.5:
        sample = flip_horizontal(sample)
    if how.flip_vertical and draws[1] < 0.5:
        sample = flip_vertical(sample)
    if how.quarter_turns:
        sample = quarter_turn(sample, int(4 * draws[2]))
    if how.shift or how.rotate or how.zoom:
        sample = affine(
            sample,
            angle=how.rotate * signed[3],
            zoom=(1 + how.zoom) ** signed[4],
            shift=(how.shift * signed[5], how.shift * signed[6]),
            fill=fill,
        )
    if how.color:
        sample = jitter_color(sample, *(1 + how.color * part for part in signed[7:]))
    return sample


def resize(sample: Sample, size: tuple[int, int], *, interpolation: str = "bilinear") -> Sample:
    """To a height and width, whatever the aspect ratio."""
    height, width = size
    if min(size) < 1:
        raise VitrailError(f"an image needs a height and a width of at least 1 pixel: got {size}")
    scale = np.array([width / sample.image.width, height / sample.image.height] * 2, dtype=np.float32)
    image = sample.image.resize((width, height), RESAMPLING[interpolation])
    moved = _with_mask(sample.annotations, lambda mask: mask.resize((width, height), Image.Resampling.NEAREST))
    return Sample(image, replace(moved, boxes=moved.boxes * scale))


def crop(sample: Sample, top: int, left: int, height: int, width: int, *, visible: float = VISIBLE) -> Sample:
    """The window of that height and width; it must lie inside the image."""
    box = (left, top, left + width, top + height)
    if min(top, left) < 0 or min(height, width) < 1 or box[2] > sample.image.width or box[3] > sample.image.height:
        raise VitrailError(
            f"a window {box} (x0 y0 x1 y1) does not lie in an image of {sample.image.width}x{sample.image.height}"
        )
    moved = _with_mask(sample.annotations, lambda mask: mask.crop(box))
    boxes = moved.boxes - np.array([left, top, left, top], dtype=np.float32)
    return Sample(sample.image.crop(box), keep_visible(moved, boxes, (height, width), visible=visible))


def pad(sample: Sample, top: int, left: int, bottom: int, right: int, *, fill: Color = 0) -> Sample:
    """More pixels around, of one color and no class."""
    if min(top, left, bottom, right) < 0:
        raise VitrailError(f"padding must be 0 or more pixels: got {(top, left, bottom, right)}")

    def grow(image: Image.Image, fill: Color) -> Image.Image:
        grown = Image.new(image.mode, (image.width + left + right, image.height + top + bottom), fill)
        grown.paste(image, (left, top))
        return grown

    moved = _with_mask(sample.annotations, lambda mask: grow(mask, _nothing(sample.annotations)))
    shifted = moved.boxes + np.array([left, top, left, top], dtype=np.float32)
    return Sample(grow(sample.image, _shade(sample.image, fill)), replace(moved, boxes=shifted))


def flip_horizontal(sample: Sample) -> Sample:
    """Left and right change places."""
    return _transpose(sample, Image.Transpose.FLIP_LEFT_RIGHT, lambda x, y: (sample.image.width - x, y))


def flip_vertical(sample: Sample) -> Sample:
    """Top and bottom change places."""
    return _transpose(sample, Image.Transpose.FLIP_TOP_BOTTOM, lambda x, y: (x, sample.image.height - y))


def quarter_turn(sample: Sample, turns: int) -> Sample:
    """By so many times 90 degrees, counterclockwise."""
    for _ in range(turns % 4):
        width = sample.image.width
        sample = _transpose(sample, Image.Transpose.ROTATE_90, lambda x, y, width=width: (y, width - x))
    return sample


def affine(
    sample: Sample,
    *,
    angle: float = 0.0,
    zoom: float = 1.0,
    shift: tuple[float, float] = (0.0, 0.0),
    fill: Color = 0,
    interpolation: str = "bilinear",
    visible: float = VISIBLE,
) -> Sample:
    """Turn, zoom and shift about the middle, as `augmentation.augment` does: a point u of the result shows the point
    zoom R(angle) u + shift of the image, in pixels from the middle, shift in shares of its sides (right, down)."""
    if zoom <= 0:
        raise VitrailError(f"a zoom is a factor above 0: got {zoom}")
    width, height = sample.image.size
    cos, sin = zoom * math.cos(math.radians(angle)), zoom * math.sin(math.radians(angle))
    back = np.array([[cos, -sin], [sin, cos]])
    middle = np.array([width / 2, height / 2])
    start = middle - back @ middle + np.array([shift[0] * width, shift[1] * height])
    map_back = (cos, -sin, float(start[0]), sin, cos, float(start[1]))

    def transform(image: Image.Image, resampling: Image.Resampling, fill: Color) -> Image.Image:
        return image.transform(image.size, Image.Transform.AFFINE, map_back, resampling, fillcolor=fill)

    moved = _with_mask(sample.annotations, lambda mask: transform(mask, Image.Resampling.NEAREST, _nothing(sample.annotations)))
    corners = _corners(moved.boxes)  # n 4 2
    boxes = _hull((corners - start) @ np.linalg.inv(back).T)
    image = transform(sample.image, RESAMPLING[interpolation], _shade(sample.image, fill))
    return Sample(image, keep_visible(moved, boxes, (height, width), visible=visible))


def jitter_color(sample: Sample, brightness: float = 1.0, contrast: float = 1.0, saturation: float = 1.0) -> Sample:
    """Factors, 1 for no change; nothing moves."""
    image = sample.image
    for kind, factor in (
        (ImageEnhance.Brightness, brightness),
        (ImageEnhance.Contrast, contrast),
        (ImageEnhance.Color, saturation),
    ):
        if factor < 0:
            raise VitrailError(f"a factor of brightness, contrast or saturation is 0 or more: got {factor}")
        if factor != 1:
            image = kind(image).enhance(factor)
    return Sample(image, sample.annotations)


def keep_visible(
    annotations: Annotations, boxes: Float[np.ndarray, "n 4"], size: tuple[int, int], *, visible: float = VISIBLE
) -> Annotations:
    """The objects with new boxes, clipped to an image of height and width; those of which too little is left are dropped."""
    height, width = size
    clipped = np.clip(boxes, 0, np.array([width, height, width, height]))
    before, after = ((b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]) for b in (boxes, clipped))
    return annotations.select((after > 0) & (after >= visible * before), clipped)


def _transpose(sample: Sample, how: Image.Transpose, point: Callable[..., tuple[np.ndarray, np.ndarray]]) -> Sample:
    moved = _with_mask(sample.annotations, lambda mask: mask.transpose(how))
    x, y = point(moved.boxes[:, 0::2], moved.boxes[:, 1::2])
    boxes = np.stack([x.min(1), y.min(1), x.max(1), y.max(1)], axis=1)
    return Sample(sample.image.transpose(how), replace(moved, boxes=boxes.astype(np.float32)))


def _with_mask(annotations: Annotations, change: Callable[[Image.Image], Image.Image]) -> Annotations:
    """The mask goes through the same operation of Pillow as its image, so the two cannot part."""
    if annotations.mask is None:
        return annotations
    return replace(annotations, mask=np.array(change(Image.fromarray(annotations.mask))))


def _nothing(annotations: Annotations) -> int:
    assert annotations.mask is not None
    return ignore_index(annotations.mask)


def _shade(image: Image.Image, fill: Color) -> Color:
    """One number is a gray of every channel."""
    return (fill, fill, fill) if isinstance(fill, int) and image.mode == "RGB" else fill


def _corners(boxes: Float32[np.ndarray, "n 4"]) -> Float[np.ndarray, "n 4 2"]:
    return boxes.astype(np.float64)[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]


def _hull(corners: Float[np.ndarray, "n 4 2"]) -> Float[np.ndarray, "n 4"]:
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
