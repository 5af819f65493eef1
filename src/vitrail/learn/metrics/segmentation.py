"""How well pixels are distinguished: a confusion matrix that grows image by image, what follows from it, and how well edges fit.

k classes, h w image. Rows of the matrix are the truth, columns what the model said; pixels of no class are in neither.
"""

import numpy as np
from jaxtyping import Bool, Float, Int64, Integer

from vitrail.data.annotations import IGNORE

TOLERANCE = 2  # pixels by which an edge may be off


def pixel_confusion(
    truth: Integer[np.ndarray, "h w"], said: Integer[np.ndarray, "h w"], classes: int
) -> Int64[np.ndarray, "k k"]:
    """M[i, j] = pixels of class i that were called j; truth of IGNORE is left out."""
    assert truth.shape == said.shape, (truth.shape, said.shape)
    known = truth != IGNORE
    cells = truth[known].astype(np.int64) * classes + said[known]
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def intersection_over_union(matrix: Integer[np.ndarray, "k k"]) -> Float[np.ndarray, "k"]:
    """IoU_c = M[c, c] / (sum_j M[c, j] + sum_i M[i, c] - M[c, c])  [Everingham+ 2010, section 4.4]; NaN of a class that is neither there
    nor said."""
    right = np.diagonal(matrix).astype(np.float64)
    union = matrix.sum(axis=0) + matrix.sum(axis=1) - right
    return np.divide(right, union, out=np.full(len(matrix), np.nan), where=union > 0)


def mean_iou(matrix: Integer[np.ndarray, "k k"]) -> float:
    """Over the classes that are there or were said."""
    found = intersection_over_union(matrix)
    return float(np.nanmean(found)) if not np.isnan(found).all() else float("nan")


def pixel_accuracy(matrix: Integer[np.ndarray, "k k"]) -> float:
    total = matrix.sum()
    return float(np.trace(matrix) / total) if total else float("nan")


class BoundaryScore:
    """The mean over images of each class's boundary F  [Csurka+ 2013]: the harmonic mean of the share of the said edge that lies within
    `tolerance` pixels of the true one, and the other way round. A class counts in the images that it is in, or is said to be in."""

    def __init__(self, classes: int, *, tolerance: int = TOLERANCE) -> None:
        self.tolerance, self.sums, self.counts = tolerance, np.zeros(classes), np.zeros(classes, dtype=np.int64)

    def add(self, truth: Integer[np.ndarray, "h w"], said: Integer[np.ndarray, "h w"]) -> float:
        """Of one image, the mean over its classes."""
        known, values = truth != IGNORE, list[float]()
        for number in np.union1d(truth[known], said[known]).tolist():
            value = boundary_f((truth == number) & known, (said == number) & known, tolerance=self.tolerance)
            self.sums[number] += value
            self.counts[number] += 1
            values.append(value)
        return float(np.mean(values)) if values else float("nan")

    @property
    def by_class(self) -> Float[np.ndarray, "k"]:
        """NaN of a class that was never met."""
        return np.divide(self.sums, self.counts, out=np.full(len(self.sums), np.nan), where=self.counts > 0)

    @property
    def mean(self) -> float:
        found = self.by_class
        return float(np.nanmean(found)) if not np.isnan(found).all() else float("nan")


def boundary_f(truth: Bool[np.ndarray, "h w"], said: Bool[np.ndarray, "h w"], *, tolerance: int = TOLERANCE) -> float:
    """2 P R / (P + R), P the share of the said edge near the true one, R the reverse; 1 where neither has an edge."""
    edges = find_edge(truth), find_edge(said)
    if not edges[0].any() and not edges[1].any():
        return float(bool(truth.any()) == bool(said.any()))
    if not edges[0].any() or not edges[1].any():
        return 0.0
    recall = float((edges[0] & widen(edges[1], tolerance)).sum() / edges[0].sum())
    precision = float((edges[1] & widen(edges[0], tolerance)).sum() / edges[1].sum())
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def find_edge(mask: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """Pixels of the mask with a neighbor, above, below, left or right, that is not; the border of the image is no edge."""
    padded = np.pad(mask, 1, mode="edge")
    inside = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return mask & ~inside


def widen(mask: Bool[np.ndarray, "h w"], radius: int) -> Bool[np.ndarray, "h w"]:
    """Every pixel within `radius` of one of the mask."""
    height, width = mask.shape
    padded, out = np.pad(mask, radius), np.zeros_like(mask)
    for down in range(-radius, radius + 1):
        for across in range(-radius, radius + 1):
            if down**2 + across**2 <= radius**2:
                top, left = radius + down, radius + across
                out |= padded[top : top + height, left : left + width]
    return out
