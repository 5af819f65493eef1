"""Planes of a volume as images: upright as radiologists look at them, with square pixels.

u v sides of a plane, h w image
"""

import numpy as np
from jaxtyping import Bool, Shaped, UInt8
from PIL import Image

SIDE = 320  # pixels of the longer side of a plane
PLANES = ("sagittal", "coronal", "axial")  # across x, y, z


def edges_of(mask: Bool[np.ndarray, "u v"]) -> Bool[np.ndarray, "u v"]:
    """Cells with a neighbor beside, above or below that is not of the mask."""
    padded = np.pad(mask, 1)
    inner = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return mask & ~inner


def finish(image: Shaped[np.ndarray, "u v 3"], spacing: tuple[float, float, float], axis: int) -> UInt8[np.ndarray, "h w 3"]:
    """Turned as radiologists look at it, and with square pixels."""
    across = [spacing[other] for other in range(3) if other != axis]
    upright = np.ascontiguousarray(to_upright(image))
    lengths = upright.shape[1] * across[0], upright.shape[0] * across[1]
    scale = SIDE / max(lengths)
    size = max(1, round(lengths[0] * scale)), max(1, round(lengths[1] * scale))
    return np.asarray(Image.fromarray(upright).resize(size, Image.Resampling.BILINEAR))


def to_upright(plane: Shaped[np.ndarray, "u v *more"]) -> Shaped[np.ndarray, "v u *more"]:
    """A plane of a volume as radiologists look at it: up is up, the patient's right, or front, is on the left."""
    return plane[::-1, ::-1].swapaxes(0, 1)
