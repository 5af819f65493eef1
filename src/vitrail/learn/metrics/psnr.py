"""How near an image is to the true one, in decibels.

h w image
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float, Real


def psnr(a: Real[np.ndarray, "h w *ch"], b: Real[np.ndarray, "h w *ch"], *, border: int = 0, peak: float = 255.0) -> float:
    """10 log10(peak^2 / mean (a - b)^2), without `border` pixels at each edge; infinite for equal images."""
    difference = crop_border(a, border).astype(np.float64) - crop_border(b, border)
    error = float(np.mean(difference**2))
    return 10 * math.log10(peak**2 / error) if error else math.inf


def crop_border(image: Any, border: int) -> Any:
    """The image without so many pixels at each edge; all of it where nothing would be left."""
    height, width = image.shape[:2]
    if not border or min(height, width) <= 2 * border:
        return image
    return image[border : height - border, border : width - border]


def to_luma(rgb: Real[np.ndarray, "h w 3"]) -> Float[np.ndarray, "h w"]:
    """Y of YCbCr, from levels 0..255 to 16..235  [ITU-R BT.601], as MATLAB's rgb2ycbcr has it: of bytes it is rounded."""
    luma = rgb.astype(np.float64) @ np.array([65.481, 128.553, 24.966]) / 255 + 16
    return np.floor(luma + 0.5) if rgb.dtype == np.uint8 else luma
