"""What report.html of a classification run is made from, and what follows from it picture by picture.

n pictures, k classes
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Integer

from vitrail.explain.positions import Similarity
from vitrail.report.data_summary import DataSummary
from vitrail.report.interior import Interior
from vitrail.report.looks import Looks

THRESHOLD = 0.5  # of the probability above which a picture is said to have a label, where it may have several


@dataclass(frozen=True, kw_only=True)
class ClassificationReport:
    """What the report shows of a run. `picture` is called only for the pictures shown.

    `truth` holds a class number for each picture, or k booleans where a picture may have several labels, or none.
    """

    title: str
    headline: str
    certainty: str = ""  # how sure the headline is
    numbers: Mapping[str, str] = field(default_factory=dict)  # what was measured, in words
    facts: Mapping[str, str]
    history: Sequence[Mapping[str, float | int]]  # rows of results.csv: epoch train_loss val_loss val_accuracy lr seconds
    labels: tuple[str, ...]
    truth: np.ndarray  # n integers, or n k booleans
    probabilities: np.ndarray  # n k
    picture: Callable[[int], np.ndarray]  # index -> uint8 h w c, c = 1 or 3
    names: Callable[[int], str]  # index -> file name or number
    configuration: Mapping[str, object]
    commands: Mapping[str, str]  # what it does -> command
    data: DataSummary | None = None
    looks: Looks | str | None = None  # or why there are none
    positions: Similarity | str | None = None  # or why there are none
    interior: Interior | None = None

    def __post_init__(self) -> None:
        expected = (len(self.truth), len(self.labels))
        if self.probabilities.shape != expected:
            raise ValueError(f"probabilities must be pictures x classes, {expected}: got {self.probabilities.shape}")
        if self.multi_label and self.truth.shape != expected:
            raise ValueError(f"truth must be pictures x classes where labels are several, {expected}: got {self.truth.shape}")

    @property
    def count(self) -> int:
        return len(self.truth)

    @property
    def multi_label(self) -> bool:
        return self.truth.ndim == 2

    @cached_property
    def said(self) -> Integer[np.ndarray, "n"] | Bool[np.ndarray, "n k"]:
        """The most likely class of each picture, or every label that is likelier than not."""
        return self.probabilities > THRESHOLD if self.multi_label else np.argmax(self.probabilities, axis=1)

    @cached_property
    def wrong(self) -> Bool[np.ndarray, "n"]:
        """Pictures with another answer than the truth, in any of their labels."""
        different = self.said != self.truth
        return different.any(axis=1) if self.multi_label else different

    @cached_property
    def confidence(self) -> Float[np.ndarray, "n"]:
        """The probability of the answer, or of the least sure of a picture's k decisions."""
        if self.multi_label:
            return np.maximum(self.probabilities, 1 - self.probabilities).min(axis=1, initial=1.0)
        return self.probabilities[np.arange(self.count), self.said]

    @cached_property
    def losses(self) -> Float[np.ndarray, "n"]:
        """-log p of the truth; the mean over the k decisions where labels are several."""
        tiny = float(np.finfo(np.float32).tiny)  # an infinite loss would still have to be ordered
        if self.multi_label:
            decided = np.where(self.truth, self.probabilities, 1 - self.probabilities)
            return -np.log(np.maximum(decided, tiny)).mean(axis=1)
        return -np.log(np.maximum(self.probabilities[np.arange(self.count), self.truth], tiny))


def highest(values: Float[np.ndarray, "n"], among: Bool[np.ndarray, "n"], count: int) -> Integer[np.ndarray, "m"]:
    """The `count` pictures with the highest values, those first; ties in their order, NaN last."""
    chosen = np.flatnonzero(among)
    return chosen[np.argsort(-values[chosen], kind="stable")][:count]
