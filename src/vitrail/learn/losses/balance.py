"""Weights that let rare classes count as much as frequent ones.

n images, k classes
"""

import numpy as np
from jaxtyping import Bool, Float32, Integer

LARGEST = 100.0  # weight of a label, and the inverse of the smallest: a single positive must not drown the rest


def class_weights(labels: Integer[np.ndarray, "n"] | Bool[np.ndarray, "n k"], classes: int) -> Float32[np.ndarray, "k"]:
    """What a class's images count in the loss; the kind of labels decides the kind of weights.

    One label per image: w_c = n / (k n_c), k being the classes that have images [King and Zeng 2001]: each class weighs
    the same in all, and an image weighs 1 on average. Many labels: the weight of a label's positives, negatives / positives,
    between 1/100 and 100. A class without images gets 1.
    """
    if labels.ndim == 2:
        positives = labels.sum(axis=0)
        weights = np.clip((len(labels) - positives) / np.maximum(positives, 1), 1.0 / LARGEST, LARGEST)
    else:
        positives = np.bincount(labels, minlength=classes)
        weights = len(labels) / (max(1, np.count_nonzero(positives)) * np.maximum(positives, 1))
    return np.where(positives > 0, weights, 1.0).astype(np.float32)
