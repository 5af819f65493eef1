"""Whether a model is right as often as it says it is.

n images, k classes, m decisions, bins: equal parts of [0, 1]; edges = bins + 1
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Integer


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A reliability diagram. Bin i holds the decisions with edges[i] < confidence <= edges[i + 1]; 0 goes into the first."""

    edges: Float[np.ndarray, "edges"]
    counts: Integer[np.ndarray, "bins"]
    confidence: Float[np.ndarray, "bins"]  # mean of what was claimed; NaN where the bin is empty
    accuracy: Float[np.ndarray, "bins"]  # share of what was true; NaN where the bin is empty
    error: float  # ECE = sum_i counts_i / n |accuracy_i - confidence_i|  [Guo+ 2017, eq. 3]; NaN without decisions
    highest: float  # MCE = max_i |accuracy_i - confidence_i|  [Guo+ 2017, eq. 5]; NaN without decisions


def calibration(probabilities: Float[np.ndarray, "n k"], truth: Integer[np.ndarray, "n"], *, bins: int = 15) -> Calibration:
    """Of the highest class of each image: its probability against how often it is the true class."""
    said = probabilities.argmax(axis=1)
    return reliability(probabilities[np.arange(len(said)), said], said == truth, bins=bins)


def binary_calibration(
    probabilities: Float[np.ndarray, "n k"], truth: Bool[np.ndarray, "n k"], *, bins: int = 15
) -> Calibration:
    """Of every class of every image: its probability against how often the image has that label."""
    return reliability(probabilities.ravel(), truth.ravel(), bins=bins)


def reliability(claimed: Float[np.ndarray, "m"], came_true: Bool[np.ndarray, "m"], *, bins: int) -> Calibration:
    """Claims sorted into bins by their probability, and each bin's mean claim beside its share of claims that came true."""
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    edges = np.linspace(0.0, 1.0, bins + 1)
    # The edge on the left is open; rounding may leave a probability a hair outside [0, 1].
    place = np.clip(np.searchsorted(edges.astype(claimed.dtype), claimed, side="left") - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    filled = np.maximum(counts, 1)
    empty = counts == 0
    confidence = np.where(empty, np.nan, np.bincount(place, weights=claimed, minlength=bins) / filled)
    accuracy = np.where(empty, np.nan, np.bincount(place, weights=came_true, minlength=bins) / filled)
    gaps = np.abs(accuracy - confidence)[~empty]
    return Calibration(
        edges=edges,
        counts=counts,
        confidence=confidence,
        accuracy=accuracy,
        error=float((counts[~empty] * gaps).sum() / len(claimed)) if len(claimed) else float("nan"),
        highest=float(gaps.max()) if len(claimed) else float("nan"),
    )
