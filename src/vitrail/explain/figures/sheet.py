"""What figures of many small images share: places measured in inches from the top left, and scales beside them.

h w image
"""

from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from vitrail.rendering import INK
from vitrail.tint import tint

BAR = 0.1  # height of a scale


class Sheet:
    """A figure of a known size. Make and use it within `house_style`.

    Small images lie on one page, whose coordinates are inches: axes for each would take most of the time of drawing.
    """

    def __init__(self, width: float, height: float, *, dpi: int = 144) -> None:
        self.width, self.height = float(width), float(height)
        self.figure = Figure(figsize=(self.width, self.height), dpi=dpi)
        self.page = self.axes(0.0, 0.0, self.width, self.height)
        self.page.set(xlim=(0, width), ylim=(height, 0), autoscale_on=False)
        self.page.set_axis_off()

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes whose frame is exactly there."""
        return self.figure.add_axes(
            (left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height)
        )

    def image(
        self, left: float, top: float, width: float, height: float, pixels: UInt8[np.ndarray, "h w _"], *, frame: bool = True
    ) -> AxesImage:
        """Pixels, three or four numbers each, stretched over a place, in a faint frame."""
        place = (left, left + width, top + height, top)
        drawn = self.page.imshow(pixels, interpolation="none", aspect="auto", extent=place)
        if frame:
            self.page.add_patch(
                Rectangle((left, top), width, height, fill=False, edgecolor=INK, alpha=0.35, linewidth=0.5, clip_on=False)
            )
        return drawn

    def write(self, left: float, top: float, words: str, **options: Any) -> None:
        """Text whose baseline is at `top` by default."""
        self.page.text(left, top, words, **options)

    def ramp(
        self,
        left: float,
        top: float,
        width: float,
        ends: tuple[float, ...],
        words: str,
        *,
        labels: tuple[str, ...] = (),
        pixels: UInt8[np.ndarray, "h w _"] | None = None,
    ) -> None:
        """A scale through `ends`, from the lowest to the highest, its words above and these numbers below at their places.

        It is drawn as `shade` does, unless `pixels` are given. It takes 0.15 above `top` and 0.25 below.
        """
        low, high = ends[0], ends[-1]
        if pixels is None:
            pixels = shade(np.linspace(low, high, 129)[None, :], max(abs(low), abs(high)))
        self.image(left, top, width, BAR, pixels)
        self.write(left, top - 0.05, words, fontsize=7.5)
        for number, end in enumerate(ends):
            side = "left" if number == 0 else "right" if number == len(ends) - 1 else "center"
            place = left + width * (end - low) / (high - low)
            text = labels[number] if labels else short_number(end)
            self.write(place, top + BAR + 0.04, text, fontsize=7, ha=side, va="top")


def shade(numbers: Float[np.ndarray, "h w"], limit: float) -> UInt8[np.ndarray, "h w 4"]:
    """Blue above 0, orange below, opacity rising to full at ±limit."""
    return tint(np.clip(np.abs(numbers) / (limit or 1.0), 0, 1), numbers >= 0)


def short_number(number: float) -> str:
    """Three digits, with a true minus sign."""
    return f"{number:.3g}".replace("-", "−")
