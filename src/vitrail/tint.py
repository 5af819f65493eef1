"""Two hues whose opacity is a number: what is zero shows the page, light or dark."""

import numpy as np
from jaxtyping import Bool, Float, UInt8

from vitrail.rendering import BLUE, ORANGE

FAINTEST = 0.2  # opacity of the smallest number above zero: a single mistake can be seen


def tint(
    strengths: Float[np.ndarray, "h w"], blue: Bool[np.ndarray, "h w"], *, faintest: float = 0.0
) -> UInt8[np.ndarray, "h w 4"]:
    """Blue or orange, opacity rising from `faintest` with the strength in [0, 1]; exactly 0 is transparent."""
    hues = np.where(blue[..., None], _red_green_blue(BLUE), _red_green_blue(ORANGE))
    alphas = np.where(strengths > 0, faintest + (1 - faintest) * strengths, 0)
    return np.concatenate([hues, np.round(255 * alphas)[..., None]], axis=-1).astype(np.uint8)


def _red_green_blue(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
