"""What the built-in scenes are drawn with: outlines of ten kinds of shape, ten named colors, and textured grounds.

h, w: height and width in pixels. A ground is a mix first + t (second - first) of two muted colors, t in [0, 1] at each pixel,
so it stays on a segment whose distance from every named color is known beforehand.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Real, UInt8
from PIL import Image, ImageDraw

Outline = list[Float[np.ndarray, "_ 2"]]
"""Polygons of (x, y) corners: the first is filled, the others are holes in it."""
Field = Float32[np.ndarray, "h w"]

SUPERSAMPLING = 4
CONTRAST = 0.2  # least distance in OKLab between a shape's color and any color of its ground
PAINT = MappingProxyType({
    "red": (214, 30, 36),
    "orange": (247, 134, 20),
    "yellow": (252, 221, 48),
    "green": (38, 160, 62),
    "cyan": (62, 206, 228),
    "blue": (30, 84, 214),
    "purple": (150, 46, 180),
    "pink": (250, 128, 188),
    "white": (252, 252, 250),
    "black": (16, 16, 18),
})  # fmt: skip
GROUNDS = (
    (240, 230, 208), (222, 206, 178), (205, 188, 156), (176, 160, 136), (148, 138, 124), (120, 116, 112), (92, 96, 104),
    (70, 74, 82), (50, 54, 62), (38, 44, 66), (66, 78, 66), (98, 108, 84), (130, 140, 116), (160, 174, 152), (206, 222, 210),
    (182, 200, 190), (76, 60, 50), (104, 84, 72), (142, 116, 102), (190, 164, 156), (216, 192, 188), (222, 226, 230),
    (196, 204, 212), (160, 168, 178), (112, 130, 140), (60, 84, 88), (42, 66, 72), (76, 58, 74), (108, 92, 108),
    (172, 166, 188), (206, 202, 218), (30, 30, 36),
)  # fmt: skip


def _arc(start: float, stop: float, *, radius: float = 1.0, x: float = 0.0) -> Float[np.ndarray, "points 2"]:
    """Corners along a circle around (x, 0), from one angle in degrees to another."""
    angle = np.radians(np.linspace(start, stop, 96))
    return np.stack([x + radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _rays(*radii: float) -> Float[np.ndarray, "points 2"]:
    """Corners at equal angles around the origin, the first one straight up."""
    radius, angle = np.array(radii), 2 * np.pi * np.arange(len(radii)) / len(radii)
    return np.stack([radius * np.sin(angle), -radius * np.cos(angle)], axis=1)


def _heart() -> Float[np.ndarray, "points 2"]:
    t = np.linspace(0, 2 * np.pi, 96)
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([16 * np.sin(t) ** 3, -y], axis=1) / 17


_ARM = 0.33
_CROSS = [(-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM),
          (_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM)]  # fmt: skip
_ARROW = [(-1, -0.3), (0, -0.3), (0, -0.85), (1, 0), (0, 0.85), (0, 0.3), (-1, 0.3)]

# kind: its outline, and by how many degrees it may turn either way and keep its name. A square on its corner would be a diamond
# (ours is narrow, so that it never is a square), a plus at 45 degrees another letter, a heart upside down a spade.
_FORMS: MappingProxyType[str, tuple[Outline, float]] = MappingProxyType({
    "circle": ([_arc(0.0, 360.0)], 0),
    "square": ([np.array([(-1.0, -1.0), (1, -1), (1, 1), (-1, 1)])], 12),
    "triangle": ([_rays(1.0, 1.0, 1.0)], 180),
    "star": ([_rays(*[1.0, 0.45] * 5)], 180),
    "ring": ([_arc(0.0, 360.0), _arc(0.0, 360.0, radius=0.55)], 0),
    "cross": ([np.array(_CROSS, dtype=float)], 14),
    "diamond": ([_rays(1.0, 0.64, 1.0, 0.64)], 14),
    "heart": ([_heart()], 20),
    "crescent": ([np.concatenate([_arc(48.0, 312.0), _arc(262.0, 98.0, radius=0.75, x=0.565)])], 180),
    "arrow": ([np.array(_ARROW, dtype=float)], 180),
})  # fmt: skip
KINDS = tuple(_FORMS)
COLORS = tuple(PAINT)


def outline(kind: str, *, turn: float) -> tuple[Outline, float]:
    """A kind of shape, turned by `turn` in [-1, 1] of what its name allows, and its area.

    Its box starts at 0 and the box's longer side is 1.
    """
    polygons, most = _FORMS[kind]
    angle = np.radians(most * turn)
    rotation = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    turned = [polygon @ rotation for polygon in polygons]
    low, high = turned[0].min(axis=0), turned[0].max(axis=0)
    scale = 1 / float((high - low).max())
    return [(polygon - low) * scale for polygon in turned], _area(kind) * scale**2


@cache
def _area(kind: str) -> float:
    """Area of the first polygon less its holes, by the shoelace formula."""
    sides = [(polygon.T, np.roll(polygon, -1, axis=0).T) for polygon in _FORMS[kind][0]]
    areas = [abs(float(x @ next_y - y @ next_x)) / 2 for (x, y), (next_x, next_y) in sides]
    return areas[0] - sum(areas[1:])


def rasterize(polygons: Outline, *, length: float, offset: tuple[float, float] = (0.0, 0.0)) -> UInt8[np.ndarray, "h w"]:
    """How much of each pixel, 0 to 255, an outline covers that is enlarged `length` times and then moved by `offset` (x, y)."""
    enlarged = [polygon * length + offset for polygon in polygons]
    width, height = (int(side) for side in np.ceil(enlarged[0].max(axis=0)))
    canvas = Image.new("L", (width * SUPERSAMPLING, height * SUPERSAMPLING))
    draw = ImageDraw.Draw(canvas)
    for index, polygon in enumerate(enlarged):
        corners = (polygon * SUPERSAMPLING - 0.5).ravel().tolist()  # Pillow's coordinates are those of pixel centers
        draw.polygon(corners, fill=0 if index else 255)
    return np.asarray(canvas.reduce(SUPERSAMPLING))


_TO_CONES = np.array([[0.4122214708, 0.2119034982, 0.0883024619],
                      [0.5363325363, 0.6806995451, 0.2817188376],
                      [0.0514459929, 0.1073969566, 0.6299787005]])  # fmt: skip
_TO_LAB = np.array([[0.2104542553, 1.9779984951, 0.0259040371],
                    [0.7936177850, -2.4285922050, 0.7827717662],
                    [-0.0040720468, 0.4505937099, -0.8086757660]])  # fmt: skip


def oklab(rgb: Real[np.ndarray, "*n 3"]) -> Float[np.ndarray, "*n 3"]:
    """sRGB 0..255 in a space where Euclidean distance is about how different two colors look  [Ottosson 2020]."""
    share = np.asarray(rgb, dtype=np.float64) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    lab: Float[np.ndarray, "*n 3"] = np.cbrt(linear @ _TO_CONES) @ _TO_LAB
    return lab


class _GroundPairs(NamedTuple):
    ends: Float[np.ndarray, "pairs 2 3"]
    lightness: Float[np.ndarray, "pairs"]
    clearance: Float[np.ndarray, "pairs colors"]  # how far the segment between the two stays from each named color


@cache
def _ground_pairs() -> _GroundPairs:
    """The pairs of ground colors that are near enough to each other for a quiet texture."""
    ends = np.array(list(combinations(GROUNDS, 2)), dtype=np.float64)
    apart = np.linalg.norm(np.subtract(*oklab(ends).swapaxes(0, 1)), axis=-1)
    ends = ends[(apart > 0.05) & (apart < 0.13)]
    t = np.linspace(0, 1, 9)[:, None]
    segment = oklab(ends[:, None, 0] * (1 - t) + ends[:, None, 1] * t)  # pairs 9 3
    named = oklab(np.array(list(PAINT.values())))
    clearance = np.linalg.norm(segment[:, :, None] - named, axis=-1).min(axis=1)
    return _GroundPairs(ends, segment[:, 4, 0], clearance)


def _noise(rng: np.random.Generator, height: int, width: int, cells: int) -> Field:
    """Smooth noise, about 0 to 1, with `cells` bumps along the shorter side: the same bumps at every resolution."""
    short = min(height, width)
    values = rng.random((-(-height * cells // short) + 1, -(-width * cells // short) + 1), dtype=np.float32)
    return np.asarray(Image.fromarray(values).resize((width, height), Image.Resampling.BICUBIC))


def _clip(values: Field) -> Field:
    """The nearest values in [0, 1]."""
    clipped: Field = np.clip(values, 0, 1)
    return clipped


def _wave(phase: Field, sharpness: float) -> Field:
    """From 0 to 1 and back once a unit of phase; a sharp wave has flat crests."""
    return _clip(np.sin(2 * np.pi * phase) * np.float32(sharpness / 2) + np.float32(0.5))


def _directions(rng: np.random.Generator, height: int, width: int) -> tuple[Field, Field]:
    """Two coordinates at right angles, in units of the shorter side, at a random angle to the image."""
    short, angle = min(height, width), rng.uniform(0, np.pi)
    y = ((np.arange(height, dtype=np.float32) + 0.5) / short)[:, None]
    x = ((np.arange(width, dtype=np.float32) + 0.5) / short)[None, :]
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    return cos * x + sin * y, cos * y - sin * x


def _waves_across(rng: np.random.Generator, height: int, width: int) -> float:
    """Waves along the shorter side: never so many that one is under five pixels."""
    return float(rng.uniform(2.5, min(8.0, max(3.0, min(height, width) / 5))))


def _clouds(rng: np.random.Generator, height: int, width: int) -> Field:
    coarse, middle, fine = (_noise(rng, height, width, cells) for cells in (3, 7, 14))
    return _clip((coarse * 5 + middle * 3 + fine * 2 - 5) * np.float32(0.18) + np.float32(0.5))


def _blotches(rng: np.random.Generator, height: int, width: int) -> Field:
    return _clip((_noise(rng, height, width, int(rng.integers(3, 8))) - np.float32(0.5)) * 4 + np.float32(0.5))


def _stripes(rng: np.random.Generator, height: int, width: int) -> Field:
    along, _ = _directions(rng, height, width)
    bend = np.float32(rng.choice([0.0, 0.9])) * _noise(rng, height, width, 2)
    return _wave(along * np.float32(_waves_across(rng, height, width)) + bend, rng.uniform(1, 3))


def _checks(rng: np.random.Generator, height: int, width: int) -> Field:
    u, v = _directions(rng, height, width)
    waves = np.float32(_waves_across(rng, height, width) / 2)
    return _clip(np.abs(_wave(u * waves, 4.0) - _wave(v * waves, 4.0)))


def _gradient(rng: np.random.Generator, height: int, width: int) -> Field:
    along, _ = _directions(rng, height, width)
    along = (along - along.min()) / (along.max() - along.min())
    return _clip(along + np.float32(0.25) * (_noise(rng, height, width, 6) - np.float32(0.5)))


TEXTURES: tuple[Callable[[np.random.Generator, int, int], Field], ...] = (_clouds, _blotches, _stripes, _checks, _gradient)


def draw_ground(rng: np.random.Generator, height: int, width: int, *, colors: Sequence[int]) -> Float32[np.ndarray, "h w 3"]:
    """A textured ground every pixel of which is at least CONTRAST away from the colors (indices into COLORS) of its scene."""
    pairs = _ground_pairs()
    clear = np.flatnonzero(pairs.clearance[:, list(colors)].min(axis=1) >= CONTRAST)
    # Most colors are light enough for any dark ground: a wish for a lightness keeps the set from being a gloomy one.
    missed = np.abs(pairs.lightness[clear] - rng.uniform(0.3, 0.95)) + rng.uniform(0, 0.18, len(clear))
    first, second = rng.permutation(pairs.ends[clear[missed.argmin()]]).astype(np.float32)
    t = TEXTURES[rng.integers(len(TEXTURES))](rng, height, width)
    t = t + np.float32(rng.uniform(0.02, 0.12)) * rng.standard_normal((height, width), dtype=np.float32)
    ground: Float32[np.ndarray, "h w 3"] = first + _clip(t)[..., None] * (second - first)
    return ground
