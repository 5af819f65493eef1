"""A map laid over its image, at the image's own resolution, with its scale.

h w image, c channels, gh gw grid, y x pixels drawn
"""

import textwrap
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image
from torch import Tensor

from vitrail.explain.figures.sheet import Sheet
from vitrail.explain.inside import enlarge
from vitrail.rendering import BLUE, house_style

SMALLEST = 128  # pixels of the longer side that an overlay has at least: a 4x4 map needs room to be smooth
SMALLEST_DRAWN = 420  # the same for a figure, which has words beside it
NOTHING, MUCH = np.array([204.0, 103.0, 29.0]), np.array([255.0, 222.0, 110.0])  # the tint's ends
STEPS = (1.5, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40, 50, 60, 80, 100)  # where a scale may end
DPI = 144  # at which a figure is saved by default: then a pixel of the image is a pixel of the file

Map = Float[np.ndarray, "gh gw"] | Float[Tensor, "gh gw"]


def overlay(
    image: UInt8[np.ndarray, "h w c"], shares: Map, highest: float, *, smallest: int = SMALLEST, largest: int | None = None
) -> UInt8[np.ndarray, "y x 3"]:
    """The image in faint gray under the map, enlarged bilinearly: nothing at 0, bright yellow at `highest` and above.

    It has the image's pixels; an image whose longer side is below `smallest` is enlarged by a whole number, and one above
    `largest` made smaller.
    """
    gray = fit_between(image.mean(axis=-1, keepdims=True).astype(np.uint8), smallest=smallest, largest=largest)[..., 0]
    heat = enlarge(torch.as_tensor(shares, dtype=torch.float32).cpu()[None], (gray.shape[0], gray.shape[1]))[0]
    level = (heat * (255 / highest)).round_().clamp_(0, 255).byte().numpy()
    return _table()[level, gray]


def fit_between(
    image: UInt8[np.ndarray, "h w c"], *, smallest: int = SMALLEST, largest: int | None = None
) -> UInt8[np.ndarray, "y x c"]:
    """Enlarged by repeating pixels to `smallest` at least, or made smaller to `largest` at most, of the longer side."""
    longer = max(image.shape[:2])
    if longer < smallest:
        factor = -(-smallest // longer)
        return image.repeat(factor, axis=0).repeat(factor, axis=1)
    if largest is None or longer <= largest:
        return image
    resized = Image.fromarray(image.squeeze(-1) if image.shape[-1] == 1 else image)
    resized.thumbnail((largest, largest), Image.Resampling.LANCZOS)
    return np.asarray(resized).reshape(resized.height, resized.width, -1)


@lru_cache(maxsize=1)
def _table() -> UInt8[np.ndarray, "256 256 3"]:
    """The color of each of 256 strengths over each gray: a photograph has millions of pixels and no more colors than these."""
    strength = np.linspace(0, 1, 256)[:, None, None]
    faint = 30 + 0.5 * np.arange(256.0)[None, :, None]
    tint = NOTHING + (MUCH - NOTHING) * strength
    return np.round(faint * (1 - 0.85 * strength) + tint * 0.85 * strength).astype(np.uint8)


def scale(highest: float) -> UInt8[np.ndarray, "y x 3"]:
    """The legend, by the same arithmetic: from 0 to `highest` over mid-gray."""
    return overlay(np.full((12, 240, 1), 110, dtype=np.uint8), np.linspace(0, highest, 240)[None, :], highest)


def times_even(maps: Float[np.ndarray, "*some gh gw"] | Float[Tensor, "*some gh gw"]) -> Float[np.ndarray, "*some gh gw"]:
    """Each map over its mean: 1 is an even share, what each patch would have if all had the same. A map of 0 stays 0."""
    numbers = torch.as_tensor(maps, dtype=torch.float64).cpu().numpy()
    mean = numbers.mean(axis=(-2, -1), keepdims=True)
    return numbers / np.where(mean > 0, mean, 1)


def scale_end(shares: Float[np.ndarray, "..."]) -> float:
    """Where a common scale ends: a round number that 97 of 100 patches stay below."""
    reached = float(np.quantile(shares, 0.97)) if shares.size else 1.0
    return float(next((step for step in STEPS if step >= reached), np.ceil(reached)))


def end_words(highest: float, shares: Float[np.ndarray, "..."]) -> str:
    """How a legend names the end of its scale: whether anything lies beyond it is said."""
    return f"{highest:g} {'or more ' if shares.max(initial=0.0) > highest else ''}times"


def draw_overlay(
    image: UInt8[np.ndarray, "h w c"],
    relevance: Map,
    *,
    highest: float | None = None,
    words: str = "",
    query: tuple[int, int] | None = None,
    largest: int | None = None,
) -> Figure:
    """The overlay of one map, in times an even share, and its legend below.

    Saved at 144 dots per inch, as `to_png` does, a pixel of the image is a pixel of the file. `highest` is the end of a scale
    that several maps share; `query` a cell to frame.
    """
    shares = times_even(relevance)
    highest = scale_end(shares) if highest is None else highest
    pixels = overlay(image, shares, highest, smallest=SMALLEST_DRAWN, largest=largest)
    height, width = pixels.shape[:2]
    unit = max(1.0, max(height, width) / 640)  # words grow with large photographs
    whole = max(width, round(2.9 * DPI * unit))
    lines = textwrap.wrap(words, int(whole / DPI / unit / 0.08), max_lines=2, placeholder="…")
    above, below = round((0.12 + 0.17 * len(lines) if lines else 0.0) * DPI * unit), round(0.42 * DPI * unit)
    left, top = (whole - width) // 2 / DPI, above / DPI
    with house_style():
        sheet = Sheet(whole / DPI, (above + height + below) / DPI, dpi=DPI)
        sheet.image(left, top, width / DPI, height / DPI, pixels, frame=False)
        if query is not None:
            down, across = height / DPI / shares.shape[0], width / DPI / shares.shape[1]
            corner = (left + query[1] * across, top + query[0] * down)
            for color, line in (("white", 3.2), (BLUE, 1.6)):  # to be seen on any image
                sheet.page.add_patch(Rectangle(corner, across, down, fill=False, edgecolor=color, linewidth=line * unit))
        middle = sheet.width / 2
        sheet.write(middle, top - 0.08 * unit, "\n".join(lines), ha="center", va="bottom", fontsize=9 * unit)
        legend = top + height / DPI + 0.16 * unit
        sheet.image(middle - 1.27 * unit, legend, 0.85 * unit, 0.12 * unit, scale(highest), frame=False)
        for place, text, side in ((-1.32, "0", "right"), (-0.36, f"{end_words(highest, shares)} an even share", "left")):
            sheet.write(middle + place * unit, legend + 0.06 * unit, text, ha=side, va="center", fontsize=7.5 * unit)
        return sheet.figure
