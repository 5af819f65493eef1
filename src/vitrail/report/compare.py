"""Before and after: a slider between two images, the square where they differ most enlarged, and maps of what is wrong.

The slider works by pointer, finger and keyboard (before_after.js); without script, and on paper, the two images stand side by
side. Images are in the page itself and their files bounded, so that eight comparisons stay below a few megabytes.

h w image, c channels, s side of the square
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Float, UInt8
from markupsafe import Markup
from PIL import Image

from vitrail.report.images import encode_exact, encode_faithful, is_small
from vitrail.report.page import Content, templates_of
from vitrail.report.parts import Label, Photograph, Scale

PART = "before_after"  # of a section: the style and the script that comparisons need
LARGEST = 640  # pixels of the longer side in the slider; the square is always cut from the whole image
BUDGET = 320_000  # bytes of an image's file
SQUARE = 48  # pixels a side of what is enlarged
TALLEST = 520  # CSS pixels of the slider
ENLARGED = 440  # CSS pixels that a smaller image is enlarged to
COLORS = "inferno"


@dataclass(frozen=True, kw_only=True)
class Pane:
    """One image under its name, with a line beneath it, such as its PSNR."""

    title: str
    image: UInt8[np.ndarray, "h w c"]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Square:
    """A part of an image, in pixels."""

    top: int
    left: int
    side: int

    def cut(self, image: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "s s c"]:
        return image[self.top : self.top + self.side, self.left : self.left + self.side]


class Shown(NamedTuple):
    """A small image with what is said of it."""

    photograph: Photograph
    title: str
    note: str


def show_comparison(name: str, *, given: Pane, restored: Pane, truth: Pane | None = None, errors: bool = False) -> Markup:
    """The slider between `given` and `restored`, and beside it the square where they differ most, pixel by pixel; with `errors`, also
    where and by how much each of them differs from the truth."""
    panes = [given, restored, *([truth] if truth is not None else [])]
    shapes = {pane.image.shape for pane in panes}
    if len(shapes) > 1:
        raise ValueError(f"images that are compared must have one size: got {sorted(shapes)}")
    if errors and truth is None:
        raise ValueError("there are no errors without a truth")
    square = differing_square(given.image, restored.image)
    height, width = given.image.shape[:2]
    size = f"{width:,} × {height:,} pixels"
    if max(height, width) > LARGEST:
        size += f", shown at {' × '.join(f'{side:,}' for side in shrunk_size(width, height))}"
    wrong, scale = draw_errors([given, restored], truth) if errors and truth is not None else ([], None)
    return templates_of(__file__).render(
        "comparison.html",
        name=Label(name),
        size=size,
        widest=widest(width, height),
        slider=show_slider(given, restored, square=square),
        zoomed=f"{square.side} × {square.side} pixels, where {given.title} and {restored.title} differ most",
        zooms=list(draw_zooms(panes, square)),
        errors=wrong,
        scale=scale,
    )


def show_slider(before: Pane, after: Pane, *, square: Square | None = None) -> Markup:
    """Two images of one size as one, with a line to drag between them. `square` is marked in it."""
    height, width = before.image.shape[:2]
    shown = {
        kind: Photograph(encode_faithful(shrink(pane.image), budget=BUDGET), pane.title, pixelated=is_small(pane.image))
        for kind, pane in (("before", before), ("after", after))
    }
    place = ""
    if square is not None and square.side < max(height, width):
        shares = {
            "left": square.left / width,
            "top": square.top / height,
            "width": square.side / width,
            "height": square.side / height,
        }
        place = "; ".join(f"{name}: {100 * share:.3f}%" for name, share in shares.items())
    style = f"--aspect: {width} / {height}; --widest: {widest(width, height)}px"
    return templates_of(__file__).render("slider.html", panes=shown, square=place, style=style)


def widest(width: int, height: int) -> int:
    """CSS pixels of a slider: at least ENLARGED where there is room, and not too tall."""
    return round(min(max(width, ENLARGED), TALLEST * width / height))


def draw_zooms(panes: Sequence[Pane], square: Square) -> Iterator[Shown]:
    """The same square of each image, enlarged without smoothing."""
    for pane in panes:
        zoomed = Photograph(encode_exact(square.cut(pane.image)), f"{pane.title}, enlarged", pixelated=True)
        yield Shown(zoomed, pane.title, pane.note)


def draw_errors(panes: Sequence[Pane], truth: Pane) -> tuple[list[Shown], Scale]:
    """|image − truth|, the mean over channels, in colors of one scale: black is none."""
    wrong = [np.abs(pane.image.astype(np.float32) - truth.image).mean(-1) for pane in panes]
    top = max(1.0, *(float(np.percentile(error, 99.5)) for error in wrong))
    shown = [
        Shown(
            Photograph(
                encode_faithful(shrink(paint(error / top)), budget=BUDGET),
                f"error of {pane.title}",
                pixelated=is_small(pane.image),
            ),
            f"{pane.title} − {truth.title}",
            f"mean {error.mean() / 2.55:.2f} %",
        )
        for pane, error in zip(panes, wrong, strict=True)
    ]
    ramp = encode_exact(paint(np.linspace(0, 1, 128, dtype=np.float32)[None].repeat(2, axis=0)))
    words = f"{top / 2.55:.1f} % of white, or more"
    return shown, Scale(Photograph(ramp, "scale from no error to large ones"), words)


def gray_images(*magnitudes: Float[np.ndarray, "h w"], top: float | None = None) -> list[UInt8[np.ndarray, "h w 1"]]:
    """Magnitudes as gray images of one scale: 0 is black, `top` and more is white; None: the 99.9th percentile of the last."""
    highest = float(np.percentile(magnitudes[-1], 99.9)) if top is None else top
    scaled = (np.clip(values / (highest or 1.0), 0, 1) for values in magnitudes)
    return [np.round(255 * values).astype(np.uint8)[:, :, None] for values in scaled]


def differing_square(one: UInt8[np.ndarray, "h w c"], other: UInt8[np.ndarray, "h w c"], *, side: int = SQUARE) -> Square:
    """The square with the largest sum of |one − other|; the one in the middle where they are the same."""
    height, width = one.shape[:2]
    side = min(side, height, width)
    difference = np.abs(one.astype(np.int64) - other.astype(np.int64)).sum(-1)
    if not difference.any():
        return Square((height - side) // 2, (width - side) // 2, side)
    total = np.pad(difference.cumsum(0).cumsum(1), ((1, 0), (1, 0)))  # total[y, x]: everything above y and left of x
    sums = total[side:, side:] - total[:-side, side:] - total[side:, :-side] + total[:-side, :-side]
    top, left = np.unravel_index(int(sums.argmax()), sums.shape)
    return Square(int(top), int(left), side)


def shrink(image: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "_ _ c"]:
    """The longer side at most LARGEST pixels."""
    height, width = image.shape[:2]
    if max(height, width) <= LARGEST:
        return image
    whole = Image.fromarray(image[:, :, 0] if image.shape[-1] == 1 else image)
    smaller = np.asarray(whole.resize(shrunk_size(width, height), Image.Resampling.LANCZOS))
    return smaller[:, :, None] if smaller.ndim == 2 else smaller


def shrunk_size(width: int, height: int) -> tuple[int, int]:
    factor = LARGEST / max(width, height)
    return max(1, round(factor * width)), max(1, round(factor * height))


def paint(shares: Float[np.ndarray, "h w"]) -> UInt8[np.ndarray, "h w 3"]:
    """0 to 1 as colors from black to light yellow."""
    colors = matplotlib.colormaps[COLORS](np.clip(shares, 0, 1), bytes=True)
    return np.ascontiguousarray(np.asarray(colors, dtype=np.uint8)[:, :, :3])


def show_comparisons(some: Sequence[Content]) -> Markup:
    return templates_of(__file__).render("comparisons.html", comparisons=some)
