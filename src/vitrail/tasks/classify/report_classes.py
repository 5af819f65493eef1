"""The table of classes, which sorts by its headers.

k classes
"""

import numpy as np
from jaxtyping import Float

from vitrail.learn.metrics.confusion import ClassScores
from vitrail.report.page import Section
from vitrail.report.parts import Bar, Cell, Label, SortableTable

FEW = 30  # up to here in the order of the classes; beyond, the lowest first, with a filter box
ROWS = 1000  # at most so many

MEANINGS = (
    "Precision: of the images called so, the share that are. Recall: of the images that are, the share called so. "
    "F1: the harmonic mean of both."
)
SEVERAL = (
    "Average precision: the area under the curve of precision over recall, whatever the threshold; the others at a probability "
    "above one half. "
)


def show_classes(
    labels: tuple[str, ...], scores: ClassScores, average_precision: Float[np.ndarray, "k"] | None = None
) -> Section:
    """With `average_precision` where an image may have several labels. Many classes are ordered by it, or else by F1."""
    columns = {"precision": scores.precision, "recall": scores.recall, "F1": scores.f1}
    decisive = "F1"
    if average_precision is not None:
        decisive = "average precision"
        columns = {decisive: average_precision, **columns}
    order, ordered, note = np.arange(len(labels)), None, ""
    if len(labels) > FEW:
        order = np.argsort(columns[decisive], kind="stable")[:ROWS]  # NaN sorts last
        ordered = 2 + list(columns).index(decisive)
        note = f"The lowest {decisive} first" + (f": {ROWS:,} of {len(labels):,} classes. " if len(labels) > ROWS else ". ")
    rows = [
        (
            Cell(Label(labels[k], columns=64), labels[k]),
            Cell(f"{scores.support[k]:,}", float(scores.support[k])),
            *(Cell(Bar(float(values[k])), float(values[k])) for values in columns.values()),
        )
        for k in order
    ]
    found = SortableTable(
        ("Class", "images", *columns),
        rows,
        ordered=None if ordered is None else (ordered, "ascending"),
        filtered="classes" if len(labels) > FEW else "",
        card="card classes",
    )
    note += MEANINGS if average_precision is None else SEVERAL + MEANINGS
    return Section("Classes", [found], note=note)
