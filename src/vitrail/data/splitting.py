"""Dividing pictures at random with every class in each part."""

import numpy as np


def stratified_split(labels: np.ndarray, share: float, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(rest, part) as sorted numbers: `share` of each class goes to the part, at least one where a class has two or more."""
    generator = np.random.Generator(np.random.PCG64(seed))
    part: list[np.ndarray] = []
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        count = min(max(round(share * len(members)), 1), len(members) - 1)
        part.append(members[:count])
    chosen = np.sort(np.concatenate(part)) if part else np.empty(0, dtype=np.int64)
    return np.setdiff1d(np.arange(len(labels)), chosen), chosen
