"""Labels that are likely wrong: images that the model has not learned from, and whose label it contradicts with the most confidence.

n images, k classes
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from vitrail.data.dataset import Split
from vitrail.files import write_table
from vitrail.tasks.classify.objective import Predictions

WRONG_LABELS = "wrong_labels.csv"
ABLE = 0.5  # share of the labels that a model must agree with, before its doubts are printed
COLUMNS = ("image", "split", "given", "predicted", "probability", "probability_of_given")


@dataclass(frozen=True, kw_only=True)
class Doubted:
    """An image whose label is contradicted."""

    split: str
    index: int  # in its split
    name: str
    given: str
    predicted: str
    probability: float
    of_given: float  # the probability of the label that it has


@dataclass(frozen=True, kw_only=True)
class DoubtedLabels:
    """All of a run, the likeliest to be wrong first; `splits` as they were predicted, `path` is their list."""

    found: Sequence[Doubted]
    splits: Mapping[str, Split]
    path: Path
    agreement: float = 1.0  # share of these images whose label the model predicts

    def write(self) -> None:
        rows = (
            (one.name, one.split, one.given, one.predicted, f"{one.probability:.6f}", f"{one.of_given:.6f}")
            for one in self.found
        )
        write_table(self.path, [COLUMNS, *rows])

    def describe(self) -> Iterator[str]:
        """A line, where there are labels to look at; none of a model that is mostly wrong itself."""
        if self.found and self.agreement >= ABLE:
            count = len(self.found)
            some = "1 label that may be wrong" if count == 1 else f"{count:,} that may be wrong, the likeliest in the report"
            yield f"labels: {some}: see {self.path}"


def find_doubted(predictions: Mapping[str, Predictions], splits: Mapping[str, Split], labels: Sequence[str]) -> list[Doubted]:
    """Images that the model finds to be of another class at least as surely as it finds that class's own images on average
    [Northcutt+ 2021, eq. 1-2], by the margin between the two probabilities. The class's own images are those labelled so."""
    probabilities = np.concatenate([found.probabilities for found in predictions.values()])
    given = np.concatenate([found.truth for found in predictions.values()])
    where = [(name, index) for name, found in predictions.items() for index in range(len(found.truth))]
    entries = []
    for number in rank_doubted(probabilities, given):
        (split, index), best = where[number], int(probabilities[number].argmax())
        entries.append(
            Doubted(
                split=split,
                index=index,
                name=splits[split].name(index),
                given=labels[given[number]],
                predicted=labels[best],
                probability=float(probabilities[number, best]),
                of_given=float(probabilities[number, given[number]]),
            )
        )
    return entries


def measure_agreement(predictions: Mapping[str, Predictions]) -> float:
    """The share of images whose label is predicted."""
    hits = np.concatenate([found.logits.argmax(axis=1) == found.truth for found in predictions.values()])
    return float(hits.mean()) if len(hits) else 0.0


def rank_doubted(probabilities: Float[np.ndarray, "n k"], given: Int[np.ndarray, "n"]) -> list[int]:
    """Numbers of images, the largest margin first."""
    count, classes = probabilities.shape
    if not count:
        return []
    own = probabilities[np.arange(count), given]
    sums, members = np.bincount(given, weights=own, minlength=classes), np.bincount(given, minlength=classes)
    usual = np.divide(
        sums, members, out=np.full(classes, np.inf), where=members > 0
    )  # mean probability of a class's own images
    best = probabilities.argmax(axis=1)
    sure = probabilities[np.arange(count), best]
    chosen = np.flatnonzero((best != given) & (sure >= usual[best]))
    order: list[int] = chosen[np.argsort(own[chosen] - sure[chosen], kind="stable")].tolist()
    return order
