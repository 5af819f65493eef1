"""Who was taken for whom: the confusion matrix, and what follows from it class by class.

n pictures, k classes. Rows of the matrix are the truth, columns what the model said.
"""

import numpy as np
from jaxtyping import Float, Integer


def confusion_matrix(
    truth: Integer[np.ndarray, "n"], predicted: Integer[np.ndarray, "n"], classes: int
) -> Integer[np.ndarray, "k k"]:
    """M[i, j] = the number of pictures of class i that were called j."""
    for name, values in (("truth", truth), ("predicted", predicted)):
        if values.size and not (values.min() >= 0 and values.max() < classes):
            raise ValueError(f"{name} must lie in 0..{classes - 1}: got {values.min()}..{values.max()}")
    cells = truth.astype(np.int64) * classes + predicted.astype(np.int64)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def precision_recall(
    matrix: Integer[np.ndarray, "k k"],
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k"]]:
    """precision_j = M[j, j] / sum_i M[i, j] and recall_i = M[i, i] / sum_j M[i, j].

    NaN where the question has no answer: the precision of a class never said, the recall of a class without pictures.
    """
    right = np.diagonal(matrix)
    return _ratio(right, matrix.sum(axis=0)), _ratio(right, matrix.sum(axis=1))


def confusion_shares(matrix: Integer[np.ndarray, "k k"]) -> Float[np.ndarray, "k k"]:
    """Each row of the matrix as shares of its class's pictures; NaN in the row of a class without pictures."""
    return _ratio(matrix, np.broadcast_to(matrix.sum(axis=1, keepdims=True), matrix.shape))


def frequent_confusions(matrix: Integer[np.ndarray, "k k"], limit: int) -> list[tuple[int, int, int]]:
    """Up to `limit` triples (truth, said, pictures), the most frequent mistake first; ties in the order of the classes."""
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
