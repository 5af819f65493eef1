"""A few images of a split, evenly chosen, for reports and measurements.

b images, h w image, ch channels
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from vitrail.data.dataset import Split
from vitrail.data.images import ImageError
from vitrail.data.transforms import read_fitted
from vitrail.preprocessing import Preprocessing


class Some(NamedTuple):
    """Images that could be read, and their numbers in the split."""

    images: UInt8[np.ndarray, "b h w ch"]
    indices: list[int]


def spread(count: int, wanted: int) -> list[int]:
    """Up to `wanted` numbers below `count`, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, wanted)).astype(int)).tolist() if count else []


def read_some(split: Split, preprocessing: Preprocessing, count: int) -> Some | None:
    """At the model's size; those that cannot be read, or are gone by now, are left out, None if that is all of them."""
    images, indices = list[np.ndarray](), list[int]()
    for index in spread(len(split), count):
        try:
            images.append(read_fitted(split, index, preprocessing))
        except ImageError:
            continue
        indices.append(index)
    return Some(np.stack(images), indices) if images else None
