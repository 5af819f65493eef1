"""How often the right class is among the first.

n images, k classes
"""

import numpy as np
from jaxtyping import Bool, Float, Int


def topk_hits(scores: Float[np.ndarray, "n k"], truth: Int[np.ndarray, "n"], k: int = 1) -> Bool[np.ndarray, "n"]:
    """Whether each image's true class is among the k highest scores; a tie counts against us, and so does NaN."""
    mine = np.take_along_axis(scores, truth[:, None], axis=1)  # n 1
    rank = (~(scores < mine)).sum(axis=1) - 1  # how many others are not lower
    return rank < k


def topk_accuracy(scores: Float[np.ndarray, "n k"], truth: Int[np.ndarray, "n"], k: int = 1) -> float:
    """Share of images whose true class is among the k highest scores."""
    return float(topk_hits(scores, truth, k).mean())
