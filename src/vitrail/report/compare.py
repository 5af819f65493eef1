"""Before and after: a slider between two pictures, the square where they differ most enlarged, and maps of what is wrong.

The slider works by pointer, finger and keyboard (before_after.js); without script, and on paper, the two pictures stand side by
side. Pictures are in the page itself and their files bounded, so that eight comparisons stay below a few megabytes.

h w picture, c channels, s side of the square
"""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from vitrail.report.page import Markup, element, label, photograph
from vitrail.report.pictures import encode_exact, encode_faithful, is_small

PART = "before_after"  # of `page`: the style and the script that comparisons need
LARGEST = 640  # pixels of the longer side in the slider; the square is always cut from the whole picture
BUDGET = 320_000  # bytes of a picture's file
SQUARE = 48  # pixels a side of what is enlarged
TALLEST = 520  # CSS pixels of the slider
ENLARGED = 440  # CSS pixels that a smaller picture is enlarged to
COLORS = "inferno"


@dataclass(frozen=True, kw_only=True)
class Pane:
    """One picture under its name, with a line beneath it, such as its PSNR."""

    title: str
    picture: UInt8[np.ndarray, "h w c"]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Square:
    """A part of a picture, in pixels."""

    top: int
    left: int
    side: int

    def cut(self, picture: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "s s c"]:
        return picture[self.top : self.top + self.side, self.left : self.left + self.side]


def show_comparison(name: str, *, given: Pane, restored: Pane, truth: Pane | None = None, errors: bool = False) -> Markup:
    """The slider between `given` and `restored`, and beside it the square where they differ most, pixel by pixel; with `errors`, also
    where and by how much each of them differs from the truth."""
    panes = [given, restored, *([truth] if truth is not None else [])]
    shapes = {pane.picture.shape for pane in panes}
    if len(shapes) > 1:
        raise ValueError(f"pictures that are compared must have one size: got {sorted(shapes)}")
    if errors and truth is None:
        raise ValueError("there are no errors without a truth")
    square = differing_square(given.picture, restored.picture)
    close = [show_zooms(panes, square)]
    if errors and truth is not None:
        close.append(show_errors([given, restored], truth))
    height, width = given.picture.shape[:2]
    size = f"{width:,} × {height:,} pixels"
    if max(height, width) > LARGEST:
        size += f", shown at {' × '.join(f'{side:,}' for side in shrunk_size(width, height))}"
    heading = element("h3", label(name), element("span", f" {size}", class_="note"))
    shown = element("div", show_slider(given, restored, square=square), element("div", *close, class_="close"), class_="shown")
    return element("article", heading, shown, class_="comparison", style=f"--widest: {widest(width, height)}px")


def show_slider(before: Pane, after: Pane, *, square: Square | None = None) -> Markup:
    """Two pictures of one size as one, with a line to drag between them. `square` is marked in it."""
    height, width = before.picture.shape[:2]
    parts = [
        element(
            "figure",
            photograph(encode_faithful(shrink(pane.picture), budget=BUDGET), pane.title, pixelated=is_small(pane.picture)),
            element("figcaption", pane.title),
            class_=kind,
        )
        for kind, pane in (("before", before), ("after", after))
    ]
    if square is not None and square.side < max(height, width):
        place = {
            "left": square.left / width,
            "top": square.top / height,
            "width": square.side / width,
            "height": square.side / height,
        }
        style = "; ".join(f"{name}: {100 * share:.3f}%" for name, share in place.items())
        parts.append(element("span", class_="square", style=style, aria_hidden="true"))
    return element("before-after", *parts, style=f"--aspect: {width} / {height}; --widest: {widest(width, height)}px")


def widest(width: int, height: int) -> int:
    """CSS pixels of a slider: at least ENLARGED where there is room, and not too tall."""
    return round(min(max(width, ENLARGED), TALLEST * width / height))


def show_zooms(panes: Sequence[Pane], square: Square) -> Markup:
    """The same square of each picture, enlarged without smoothing, names and notes beneath."""
    figures = (
        _figure(
            pane.title, pane.note, photograph(encode_exact(square.cut(pane.picture)), f"{pane.title}, enlarged", pixelated=True)
        )
        for pane in panes
    )
    words = f"{square.side} × {square.side} pixels, where {panes[0].title} and {panes[1].title} differ most"
    return element("div", element("p", words, class_="note"), element("div", *figures, class_="zooms"))


def show_errors(panes: Sequence[Pane], truth: Pane) -> Markup:
    """|picture − truth|, the mean over channels, in colors of one scale: black is none."""
    wrong = [np.abs(pane.picture.astype(np.float32) - truth.picture).mean(-1) for pane in panes]
    top = max(1.0, *(float(np.percentile(error, 99.5)) for error in wrong))
    figures = (
        _figure(
            f"{pane.title} − {truth.title}",
            f"mean {error.mean() / 2.55:.2f} %",
            photograph(
                encode_faithful(shrink(paint(error / top)), budget=BUDGET),
                f"error of {pane.title}",
                pixelated=is_small(pane.picture),
            ),
        )
        for pane, error in zip(panes, wrong, strict=True)
    )
    ramp = photograph(
        encode_exact(paint(np.linspace(0, 1, 128, dtype=np.float32)[None].repeat(2, axis=0))),
        "scale from no error to large ones",
        pixelated=False,
    )
    legend = element(
        "div", element("span", "0"), ramp, element("span", f"{top / 2.55:.1f} % of white, or more"), class_="legend"
    )
    return element(
        "div", element("p", "Errors, on one scale", class_="note"), element("div", *figures, class_="errors"), legend
    )


def gray_pictures(*magnitudes: Float[np.ndarray, "h w"], top: float | None = None) -> list[UInt8[np.ndarray, "h w 1"]]:
    """Magnitudes as gray pictures of one scale: 0 is black, `top` and more is white; None: the 99.9th percentile of the last."""
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


def shrink(picture: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "_ _ c"]:
    """The longer side at most LARGEST pixels."""
    height, width = picture.shape[:2]
    if max(height, width) <= LARGEST:
        return picture
    image = Image.fromarray(picture[:, :, 0] if picture.shape[-1] == 1 else picture)
    smaller = np.asarray(image.resize(shrunk_size(width, height), Image.Resampling.LANCZOS))
    return smaller[:, :, None] if smaller.ndim == 2 else smaller


def shrunk_size(width: int, height: int) -> tuple[int, int]:
    factor = LARGEST / max(width, height)
    return max(1, round(factor * width)), max(1, round(factor * height))


def paint(shares: Float[np.ndarray, "h w"]) -> UInt8[np.ndarray, "h w 3"]:
    """0 to 1 as colors from black to light yellow."""
    colors = matplotlib.colormaps[COLORS](np.clip(shares, 0, 1), bytes=True)
    return np.ascontiguousarray(np.asarray(colors, dtype=np.uint8)[:, :, :3])


def _figure(title: str, note: str, picture: Markup) -> Markup:
    words = [element("b", title), *([element("span", note)] if note else [])]
    return element("figure", picture, element("figcaption", *words))
