"""A built-in dataset, drawn from a seed: colored shapes on textured grounds, with class, masks, boxes and a caption.

Image `index` of a split is a function of (seed, split, index, size, shapes, glass) alone: how many are asked for, and in which
order, changes nothing. With `glass` the same shapes stand at the same places and are transparent.

h, w: height and width in pixels, k: shapes of a scene, the main one first
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int32, Int64, UInt8
from PIL import Image

from vitrail.data.dataset import SPLITS, Labelled, SplitName
from vitrail.data.shape_drawing import COLORS, KINDS, PAINT, draw_ground
from vitrail.data.shape_glass import paint_glass
from vitrail.data.shape_layout import EXTENTS, RELATIONS, Box, Piece, arrange, relation
from vitrail.errors import VitrailError, check_choice

__all__ = ["COLORS", "EXTENTS", "KINDS", "MOST_SHAPES", "RELATIONS", "Scene", "Shape", "ShapesSplit", "draw_scene"]

MOST_SHAPES = 6
_SIDES = (16, 1024)
_FINE = 24  # pixels per image needs for the kind of a small main shape to be seen
_NUMBERS = ("no", "one", "two", "three", "four")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """One shape of a scene, in the words of a caption."""

    kind: str
    color: str
    extent: str  # small: at most 0.44 of the image's shorter side; large: at least 0.54
    box: Box  # tight around the visible pixels
    area: int  # visible pixels


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Scene:
    """An image and all that is known about it."""

    image: UInt8[np.ndarray, "h w 3"]
    label: int  # the class: index in KINDS of the main shape, the one with clearly the largest visible area
    mask: UInt8[np.ndarray, "h w"]  # 0 ground, 1 + kind of the top-most shape
    instances: Int32[np.ndarray, "h w"]  # 0 ground, 1 + index of the top-most shape
    boxes: Float32[np.ndarray, "k 4"]
    kinds: Int64[np.ndarray, "k"]
    shapes: tuple[Shape, ...]
    caption: str


def _generator(seed: int, split: str, index: int, *, purpose: int) -> np.random.Generator:
    """A stream of its own for each (seed, split, index, purpose): Philox scrambles key and counter, and shares no state."""
    return np.random.Generator(np.random.Philox(key=[seed, index], counter=[0, 0, purpose, SPLITS.index(split)]))


def _labels(seed: int, split: str, start: int, stop: int) -> Int64[np.ndarray, "count"]:
    """Classes of images start to stop - 1. Each run of ten is a permutation of the kinds, so that any count is balanced."""
    run = len(KINDS)
    runs = [_generator(seed, split, number, purpose=0).permutation(run) for number in range(start // run, -(-stop // run))]
    return np.concatenate(runs)[start % run :][: stop - start]


def _caption(shapes: Sequence[Shape]) -> str:
    """The main shape, how it stands to the second, and how many more there are."""
    main = shapes[0]
    words = f"a {main.extent} {main.color} {main.kind}"
    if len(shapes) > 1:
        other = shapes[1]
        article = "an" if other.color[0] in "aeiou" else "a"
        words += f" {relation(main.box, other.box)} {article} {other.color} {other.kind}"
    if len(shapes) > 2:
        words += f", with {_NUMBERS[len(shapes) - 2]} more shape{'s' if len(shapes) > 3 else ''}"
    return words


def _paint(
    rng: np.random.Generator,
    pieces: Sequence[Piece],
    colors: Sequence[int],
    *,
    size: tuple[int, int],
    in_front: bool,
    glass: bool,
) -> UInt8[np.ndarray, "h w 3"]:
    """The ground, then the pieces from back to front, each a shade off its color and lit from the upper left; or of glass."""
    image = draw_ground(rng, *size, colors=colors)
    painted = list(zip(pieces, colors, strict=True))
    if in_front:
        painted.reverse()
    if glass:
        paint_glass(image, [piece for piece, _ in painted], rng)
        painted = []
    for piece, color in painted:
        paint = np.asarray(PAINT[COLORS[color]], dtype=np.float32) + rng.uniform(-4, 4, 3).astype(np.float32)
        down, across = (np.linspace(0, 0.06, side, dtype=np.float32) for side in piece.coverage.shape)
        light = 1 - down[:, None] - across
        window = image[piece.window()]
        window += (paint * light[..., None] - window) * (piece.coverage[..., None] / np.float32(255))
    return np.clip(image + np.float32(0.5), 0, 255).astype(np.uint8)


def _check_size(size: int | tuple[int, int]) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    if not all(_SIDES[0] <= side <= _SIDES[1] for side in (height, width)):
        raise VitrailError(f"size must be from {_SIDES[0]} to {_SIDES[1]} pixels, or two such (height, width): got {size}")
    return height, width


def _check_key(seed: int, split: str, index: int) -> None:
    check_choice("split", split, SPLITS)
    for name, value in (("seed", seed), ("index", index)):
        if not 0 <= value < 2**63:
            raise VitrailError(f"{name} must be from 0 to 2^63 - 1: got {value}")


def draw_scene(
    index: int,
    *,
    seed: int = 0,
    split: SplitName = "train",
    size: int | tuple[int, int] = 64,
    shapes: int | tuple[int, int] = (1, 3),
    glass: bool = False,
) -> Scene:
    """Scene `index` of a split, at `size` (an int, or height and width), with `shapes` shapes (an int, or fewest and most)."""
    _check_key(seed, split, index)
    size = _check_size(size)
    fewest, most = (shapes, shapes) if isinstance(shapes, int) else shapes
    if not 1 <= fewest <= most <= MOST_SHAPES:
        raise VitrailError(f"shapes must be from 1 to {MOST_SHAPES}, or such a range (fewest, most): got {shapes}")

    rng = _generator(seed, split, index, purpose=1)
    count = int(rng.integers(fewest, most, endpoint=True))
    label = int(_labels(seed, split, index, index + 1)[0])
    kinds = [label, *rng.integers(len(KINDS), size=count - 1).tolist()]
    colors = rng.permutation(len(COLORS))[:count].tolist()  # all different, so that a caption's words fit one shape only
    in_front, small = bool(rng.random() < 0.5), bool(rng.random() < 0.4)
    extent = "small" if small and min(size) >= _FINE else "large"
    pieces, instances = arrange(rng, kinds, size=size, main_extent=extent, in_front=in_front)
    found = tuple(
        Shape(kind=KINDS[piece.kind], color=COLORS[color], extent=piece.extent, box=piece.box, area=piece.area)
        for piece, color in zip(pieces, colors, strict=True)
    )
    return Scene(
        image=_paint(_generator(seed, split, index, purpose=2), pieces, colors, size=size, in_front=in_front, glass=glass),
        label=label,
        mask=np.array([0, *(kind + 1 for kind in kinds)], dtype=np.uint8)[instances],
        instances=instances,
        boxes=np.array([shape.box for shape in found], dtype=np.float32),
        kinds=np.array(kinds, dtype=np.int64),
        shapes=found,
        caption=_caption(found),
    )


class ShapesSplit(Labelled):
    """`count` images of a split as a sequence of (image, class), each drawn when it is asked for."""

    classes: tuple[str, ...] = KINDS

    def __init__(
        self, split: SplitName, count: int, *, size: int | tuple[int, int] = 64, seed: int = 0, glass: bool = False
    ) -> None:
        _check_key(seed, split, 0)
        if count < 1:
            raise VitrailError(f"count must be at least 1 image: got {count}")
        super().__init__(_labels(seed, split, 0, count))
        self.split, self.count, self.size, self.seed, self.glass = split, count, _check_size(size), seed, glass

    def read(self, index: int, *, target: tuple[int, int] | None = None) -> Image.Image:
        return Image.fromarray(self.scene(index).image)

    def scene(self, index: int) -> Scene:
        """Everything about image `index`; -1 is the last one, as in a list."""
        if not -self.count <= index < self.count:
            raise IndexError(f"image {index} of {self.count}")
        return draw_scene(index % self.count, seed=self.seed, split=self.split, size=self.size, glass=self.glass)
