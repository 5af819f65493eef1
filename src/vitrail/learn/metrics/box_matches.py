"""Which boxes of one image hit which object, at one threshold of score and of overlap: what a person wants to be shown.

n boxes, m objects
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from vitrail.nn.functional.boxes import all_pairs, overlap


class Matches(NamedTuple):
    """Of each box the number of the object that it hits, or -1; and whether each object is hit."""

    hits: Int[np.ndarray, "n"]
    found: Bool[np.ndarray, "m"]


def match_boxes(
    boxes: Float[np.ndarray, "n 4"],
    classes: Int[np.ndarray, "n"],
    objects: Float[np.ndarray, "m 4"],
    kinds: Int[np.ndarray, "m"],
    *,
    least: float = 0.5,
) -> Matches:
    """The boxes, surest first, each take the free object of their class that they overlap most, if by at least `least`: as COCO counts."""
    hits, taken = np.full(len(boxes), -1), np.zeros(len(objects), dtype=bool)
    if not len(boxes) or not len(objects):
        return Matches(hits, taken)
    table = overlap(*all_pairs(torch.from_numpy(boxes), torch.from_numpy(objects)))[0].numpy()  # n m
    for number in range(len(boxes)):
        free = np.where(taken | (kinds != classes[number]), -1.0, table[number])
        best = int(free.argmax())
        if free[best] >= least:
            hits[number], taken[best] = best, True
    return Matches(hits, taken)
