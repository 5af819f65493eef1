"""Dividing images at random with every class in each part.

n images, k classes
"""

import numpy as np
from jaxtyping import Bool


def stratified_split(labels: np.ndarray, share: float, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(rest, part) as sorted numbers: `share` of each class goes to the part, at least one where a class has two or more."""
    generator = np.random.Generator(np.random.PCG64(seed))
    if labels.ndim == 2:
        chosen = np.flatnonzero(_take_from_each_label(labels, share, generator))
    else:
        part: list[np.ndarray] = [np.empty(0, dtype=np.int64)]
        for label in np.unique(labels):
            members = generator.permutation(np.flatnonzero(labels == label))
            count = min(max(round(share * len(members)), 1), len(members) - 1)
            part.append(members[:count])
        chosen = np.sort(np.concatenate(part))
    return np.setdiff1d(np.arange(len(labels)), chosen), chosen


def _take_from_each_label(
    labels: Bool[np.ndarray, "n k"], share: float, generator: np.random.Generator
) -> Bool[np.ndarray, "n"]:
    """Who goes to the part, where an image may have several labels  [Sechidis+ 2011, algorithm 1].

    The label with the fewest images left is dealt out first: each of its images goes to the side that still wants more of
    that label, on a tie to the one that wants more images. Images without labels come last, as one more label.
    """
    wide = np.concatenate([labels, ~labels.any(axis=1, keepdims=True)], axis=1)  # n k+1
    shares = np.array([1 - share, share])
    wanted = shares[:, None] * wide.sum(axis=0)  # rest and part, k+1
    room = shares * len(labels)
    left, taken = np.ones(len(labels), dtype=bool), np.zeros(len(labels), dtype=bool)
    counts = wide.sum(axis=0)
    while left.any():
        label = int(np.argmin(np.where(counts > 0, counts, np.iinfo(np.int64).max)))
        for image in generator.permutation(np.flatnonzero(left & wide[:, label])):
            desire = wanted[:, label]
            side = int(room[1] > room[0]) if desire[0] == desire[1] else int(desire[1] > desire[0])
            taken[image], left[image] = bool(side), False
            wanted[side] -= wide[image]
            room[side] -= 1
            counts -= wide[image]
    return taken
