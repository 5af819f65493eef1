"""What a scanner measured, as numbers from 0 to 1.

x y z sides
"""

import numpy as np
from jaxtyping import Bool, Float32

TAIL = 0.5  # percent of the voxels beyond each end of a window that is found
ENOUGH = 200_000  # voxels to find it by


def find_window(values: Float32[np.ndarray, "*some"], inside: Bool[np.ndarray, "*some"] | None = None) -> tuple[float, float]:
    """The percentiles 0.5 and 99.5 of the voxels `inside` what is labelled  [Isensee+ 2021, nnU-Net's rule for CT]; without labels, of those
    above the mean, which leaves the air out."""
    some = values[inside] if inside is not None and inside.any() else values[values >= values.mean()]
    low, high = np.percentile(some[:: max(1, some.size // ENOUGH)], [TAIL, 100 - TAIL]).tolist()
    return (low, high) if high > low else (low, low + 1.0)


def apply_window(values: Float32[np.ndarray, "*some"], window: tuple[float, float]) -> Float32[np.ndarray, "*some"]:
    """(v - low) / (high - low), clipped to [0, 1]."""
    low, high = window
    return ((values - np.float32(low)) / np.float32(high - low)).clip(0, 1).astype(np.float32, copy=False)
