"""What the report of a classifier is made from, and what follows from it image by image.

n images, k classes
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Integer

from vitrail.explain.positions import Similarity
from vitrail.report.page import Section
from vitrail.tasks.classify.report_attention import Looks
from vitrail.tasks.classify.report_data import DataSummary
from vitrail.tasks.classify.report_interior import Interior

THRESHOLD = 0.5  # the probability above which a label is predicted, where an image may have several


@dataclass(frozen=True, kw_only=True)
class Classified:
    """What the report shows. `image` is called only for the images shown.

    `targets` holds a class number for each image, or k booleans where an image may have several labels, or none.
    """

    labels: tuple[str, ...]
    targets: np.ndarray  # n integers, or n k booleans
    probabilities: np.ndarray  # n k
    image: Callable[[int], np.ndarray]  # index -> uint8 h w c, c = 1 or 3
    names: Callable[[int], str]  # index -> file name or number
    doubted: Section | None = None  # labels that may be wrong
    data: DataSummary | None = None
    looks: Looks | str | None = None  # or why there are none
    positions: Similarity | str | None = None  # or why there are none
    interior: Interior | None = None

    def __post_init__(self) -> None:
        expected = (len(self.targets), len(self.labels))
        if self.probabilities.shape != expected:
            raise ValueError(f"probabilities must be images x classes, {expected}: got {self.probabilities.shape}")
        if self.multi_label and self.targets.shape != expected:
            raise ValueError(f"targets must be images x classes where labels are several, {expected}: got {self.targets.shape}")

    @property
    def count(self) -> int:
        return len(self.targets)

    @property
    def multi_label(self) -> bool:
        return self.targets.ndim == 2

    @cached_property
    def predicted(self) -> Integer[np.ndarray, "n"] | Bool[np.ndarray, "n k"]:
        """The most likely class of each image, or every label that is likelier than not."""
        return self.probabilities > THRESHOLD if self.multi_label else np.argmax(self.probabilities, axis=1)

    @cached_property
    def wrong(self) -> Bool[np.ndarray, "n"]:
        """Images whose prediction is not the target, in any of their labels."""
        different = self.predicted != self.targets
        return different.any(axis=1) if self.multi_label else different

    @cached_property
    def confidence(self) -> Float[np.ndarray, "n"]:
        """The probability of the prediction, or of the least sure of an image's k decisions."""
        if self.multi_label:
            return np.maximum(self.probabilities, 1 - self.probabilities).min(axis=1, initial=1.0)
        return self.probabilities[np.arange(self.count), self.predicted]

    @cached_property
    def losses(self) -> Float[np.ndarray, "n"]:
        """-log p of the target; the mean over the k decisions where labels are several."""
        tiny = float(np.finfo(np.float32).tiny)  # an infinite loss would still have to be ordered
        if self.multi_label:
            decided = np.where(self.targets, self.probabilities, 1 - self.probabilities)
            return -np.log(np.maximum(decided, tiny)).mean(axis=1)
        return -np.log(np.maximum(self.probabilities[np.arange(self.count), self.targets], tiny))


def highest(values: Float[np.ndarray, "n"], among: Bool[np.ndarray, "n"], count: int) -> Integer[np.ndarray, "m"]:
    """The `count` images with the highest values, those first; ties in their order, NaN last."""
    chosen = np.flatnonzero(among)
    return chosen[np.argsort(-values[chosen], kind="stable")][:count]
