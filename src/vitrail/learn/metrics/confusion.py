"""Who was taken for whom: the confusion matrix, and what follows from it class by class.

n images, k classes. Rows of the matrix are the truth, columns what the model said. The matrix is for drawing: at 10,000
classes it takes 800 MB, so `class_scores` counts without it.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Integer


@dataclass(frozen=True, kw_only=True)
class ClassScores:
    """How well each class is distinguished from the rest; NaN where the question has no answer."""

    precision: Float[np.ndarray, "k"]  # right / said: of a class never said, NaN
    recall: Float[np.ndarray, "k"]  # right / support: of a class without images, NaN
    f1: Float[np.ndarray, "k"]  # 2 right / (said + support), the harmonic mean of both; NaN where neither said nor there
    support: Integer[np.ndarray, "k"]  # images of the class

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the classes that have images; NaN if none has."""
        return _mean(self.f1[self.support > 0])

    @property
    def balanced_accuracy(self) -> float:
        """Mean recall of the classes that have images: accuracy as if each had equally many; NaN if none has any."""
        return _mean(self.recall[self.support > 0])


def class_scores(truth: Integer[np.ndarray, "n"], predicted: Integer[np.ndarray, "n"], classes: int) -> ClassScores:
    """Precision, recall and F1 of each class, counted without the matrix."""
    _check_range(truth, predicted, classes)
    right, said, support = (np.bincount(found, minlength=classes) for found in (truth[truth == predicted], predicted, truth))
    return count_scores(right, said, support)


def count_scores(
    right: Integer[np.ndarray, "k"], said: Integer[np.ndarray, "k"], support: Integer[np.ndarray, "k"]
) -> ClassScores:
    """From how often each class was said rightly, said at all, and there."""
    return ClassScores(
        precision=_ratio(right, said),
        recall=_ratio(right, support),
        f1=_ratio(2 * right.astype(np.int64), said + support),
        support=support,
    )


def confusion_matrix(
    truth: Integer[np.ndarray, "n"], predicted: Integer[np.ndarray, "n"], classes: int
) -> Integer[np.ndarray, "k k"]:
    """M[i, j] = the number of images of class i that were called j."""
    _check_range(truth, predicted, classes)
    cells = truth.astype(np.int64) * classes + predicted.astype(np.int64)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def matrix_scores(matrix: Integer[np.ndarray, "k k"]) -> ClassScores:
    """The same from a matrix: precision_j = M[j, j] / sum_i M[i, j] and recall_i = M[i, i] / sum_j M[i, j]."""
    return count_scores(np.diagonal(matrix), matrix.sum(axis=0), matrix.sum(axis=1))


def precision_recall(
    matrix: Integer[np.ndarray, "k k"],
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k"]]:
    """Precision and recall of each class; NaN where the question has no answer."""
    scores = matrix_scores(matrix)
    return scores.precision, scores.recall


def f1_scores(matrix: Integer[np.ndarray, "k k"]) -> Float[np.ndarray, "k"]:
    """2 M[i, i] / (sum_j M[i, j] + sum_j M[j, i]) of each class i; NaN where it was neither said nor there."""
    return matrix_scores(matrix).f1


def macro_f1(matrix: Integer[np.ndarray, "k k"]) -> float:
    """Mean F1 of the classes that have images; the others are left out."""
    return matrix_scores(matrix).macro_f1


def balanced_accuracy(matrix: Integer[np.ndarray, "k k"]) -> float:
    """Mean recall of the classes that have images; the others are left out."""
    return matrix_scores(matrix).balanced_accuracy


def confusion_shares(matrix: Integer[np.ndarray, "k k"]) -> Float[np.ndarray, "k k"]:
    """Each row of the matrix as shares of its class's images; NaN in the row of a class without images."""
    return _ratio(matrix, np.broadcast_to(matrix.sum(axis=1, keepdims=True), matrix.shape))


def frequent_confusions(matrix: Integer[np.ndarray, "k k"], limit: int) -> list[tuple[int, int, int]]:
    """Up to `limit` triples (truth, said, images), the most frequent mistake first; ties in the order of the classes."""
    mistakes = matrix * ~np.eye(len(matrix), dtype=bool)
    order = np.argsort(-mistakes, axis=None, kind="stable")[:limit]
    rows, columns = np.unravel_index(order, matrix.shape)
    return [(int(i), int(j), int(mistakes[i, j])) for i, j in zip(rows, columns, strict=True) if mistakes[i, j]]


def hardest_classes(matrix: Integer[np.ndarray, "k k"], limit: int) -> Integer[np.ndarray, "m"]:
    """The `limit` classes with the most mistakes made on them or by naming them, in the order of the classes."""
    mistakes = matrix.sum(axis=0) + matrix.sum(axis=1) - 2 * np.diagonal(matrix)
    return np.sort(np.argsort(-mistakes, kind="stable")[:limit])


def _ratio(part: Integer[np.ndarray, "..."], whole: Integer[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """part / whole, NaN where the whole is 0, without a warning."""
    ratio = np.full(part.shape, np.nan)
    np.divide(part, whole, out=ratio, where=whole != 0)
    return ratio


def _mean(values: Float[np.ndarray, "m"]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _check_range(truth: Integer[np.ndarray, "n"], predicted: Integer[np.ndarray, "n"], classes: int) -> None:
    for name, values in (("truth", truth), ("predicted", predicted)):
        if values.size and not (values.min() >= 0 and values.max() < classes):
            raise ValueError(f"{name} must lie in 0..{classes - 1}: got {values.min()}..{values.max()}")
