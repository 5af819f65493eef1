"""How much of what is found and of what is there is the same: Dice, class by class.

k classes
"""

import numpy as np
from jaxtyping import Float, Integer


def count_overlap(
    found: Integer[np.ndarray, "*size"], truth: Integer[np.ndarray, "*size"], *, classes: int
) -> Integer[np.ndarray, "3 k"]:
    """Cells of each class: in both, in what is found, in the truth. Counts of parts add up to those of the whole."""
    both = np.bincount(truth[found == truth].ravel(), minlength=classes)
    return np.stack([both, np.bincount(found.ravel(), minlength=classes), np.bincount(truth.ravel(), minlength=classes)])


def dice_of(counts: Integer[np.ndarray, "3 k"]) -> Float[np.ndarray, "k"]:
    """2 |A ∩ B| / (|A| + |B|)  [Dice 1945]: 1 for the same cells, 0 for none in common; not a number where a class is in neither, which says
    nothing about a model."""
    both, found, truth = counts.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return 2 * both / (found + truth)
