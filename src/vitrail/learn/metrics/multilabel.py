"""Images with any number of labels: how well each label's scores rank the images, and how good the decisions are.

n images, k classes, p positives (images that have a label, once for each label). A class without a single positive image has no answer: NaN by itself, left out of every mean.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Num

from vitrail.learn.metrics.confusion import ClassScores, count_scores


class LabelF1(NamedTuple):
    """F1 = 2 right / (said + there), over all decisions at once and as a mean over the classes; NaN without a positive."""

    micro: float
    macro: float


class Ranking:
    """Images in falling order of score, class by class: sorted once, scored as often as resampling asks.

    Only the places of positives matter, so these are kept, as positions p in the k rankings laid end to end. Images with
    equal scores pass a threshold together: what counts for a positive is the last place that has its score.
    """

    def __init__(self, scores: Float[np.ndarray, "n k"], truth: Bool[np.ndarray, "n k"]) -> None:
        self.classes, self.images = scores.shape[1], scores.shape[0]
        fallen = np.ascontiguousarray(-scores.T)
        order = np.argsort(fallen, axis=1)  # k n
        self.order = order.ravel()
        self.hits = np.take_along_axis(np.ascontiguousarray(truth.T), order, axis=1).ravel()
        fallen = np.take_along_axis(fallen, order, axis=1)
        new = np.ones(fallen.shape, dtype=bool)  # whether a score is another than the one before it
        new[:, 1:] = fallen[:, 1:] != fallen[:, :-1]
        self.new = new.ravel()
        ends = np.append(self.new[1:], True)
        self.positives = np.flatnonzero(self.hits)  # p
        self.last = self.positives.copy()
        if len(tied := np.flatnonzero(~ends[self.positives])):
            places = np.flatnonzero(ends)
            self.last[tied] = places[np.searchsorted(places, self.positives[tied])]
        self.passed = np.searchsorted(self.positives, self.last, side="right")  # positives of all rankings down to there
        self.support = truth.sum(axis=0)
        self.rows = np.repeat(np.arange(self.classes), self.support)
        self.before = np.cumsum(self.support) - self.support  # positives of the classes before

    def average_precision(self, weights: Num[np.ndarray, "n"] | None = None) -> Float[np.ndarray, "k"]:
        """Mean over a class's positives of the precision down to their place; each image counts `weights` times."""
        if weights is None:
            found, seen = self._counts()
            return _ratio_or_nan(self._by_class(found / seen), self.support.astype(np.float64))
        drawn = weights[self.order].reshape(self.classes, self.images)
        mine = drawn.ravel()[self.positives].astype(np.float64)
        sums = np.append(0.0, np.cumsum(mine))
        found = sums[self.passed] - sums[self.before][self.rows]
        seen = drawn.cumsum(axis=1, dtype=drawn.dtype).ravel()[self.last]
        precision = found / np.maximum(seen, 1e-300)  # nothing seen: the positive itself weighs nothing
        return _ratio_or_nan(self._by_class(mine * precision), self._by_class(mine))

    def influence(self) -> Float[np.ndarray, "n"]:
        """d mAP / d weight_j of each image j, at weights of 1.

        With y_i whether the image at place i is positive, and found_i positives among the seen_i images down to it,
        AP = (1/P) sum_i y_i found_i / seen_i, so
        dAP/dw_j = (1/P) (y_j (found_j / seen_j - AP) + sum_{i not before j} y_i (y_j / seen_i - found_i / seen_i^2)).
        """
        known = max(1, int((self.support > 0).sum()))
        share = 1.0 / (known * np.maximum(self.support, 1))  # of one positive of the class in mAP
        found, seen = self._counts()
        average = self._by_class(found / seen) / np.maximum(self.support, 1)
        gains, losses = (np.append(0.0, np.cumsum(values)) for values in (1.0 / seen, found / seen**2))
        until = self.before + self.support
        starts = np.flatnonzero(self.new)
        earlier = np.cumsum(self.hits) - self.hits  # positives of all rankings before a place, or before its equals
        earlier = np.repeat(earlier[starts], np.diff(starts, append=self.hits.size))
        lost = share[:, None] * (losses[until][:, None] - losses[earlier].reshape(self.classes, self.images))
        own = found / seen - average[self.rows] + gains[until][self.rows] - gains[earlier[self.positives]]
        won = np.bincount(self.order[self.positives], weights=share[self.rows] * own, minlength=self.images)
        return won - np.bincount(self.order, weights=lost.ravel(), minlength=self.images)

    def _counts(self) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "p"]]:
        """For each positive: how many positives, and how many images, its class has down to its place."""
        return self.passed - self.before[self.rows].astype(np.float64), self.last % self.images + 1.0

    def _by_class(self, values: Float[np.ndarray, "p"]) -> Float[np.ndarray, "k"]:
        return np.bincount(self.rows, weights=values, minlength=self.classes).astype(np.float64)  # integers if empty


def average_precision(scores: Float[np.ndarray, "n k"], truth: Bool[np.ndarray, "n k"]) -> Float[np.ndarray, "k"]:
    """sum_t (recall_t - recall_{t-1}) precision_t over falling thresholds t, without interpolation  [Zhu 2004].

    Images of equal score pass a threshold together. This is what scikit-learn's `average_precision_score` computes.
    """
    return Ranking(scores, truth).average_precision()


def mean_average_precision(scores: Float[np.ndarray, "n k"], truth: Bool[np.ndarray, "n k"]) -> float:
    """mAP: mean over the classes that have a positive; NaN if none has."""
    return mean_of_known(average_precision(scores, truth))


def map_error(ranking: Ranking) -> float:
    """The bootstrap's standard error of mAP in the limit of many resamples: the infinitesimal jackknife [Efron 1982, ch. 6].

    sqrt(sum_j (d mAP / d weight_j)^2) over the images j: as cheap as mAP itself, and the same number every time.
    """
    return float(np.sqrt((ranking.influence() ** 2).sum()))


def label_scores(decisions: Bool[np.ndarray, "n k"], truth: Bool[np.ndarray, "n k"]) -> ClassScores:
    """Precision, recall and F1 of each label's decisions."""
    return count_scores((decisions & truth).sum(axis=0), decisions.sum(axis=0), truth.sum(axis=0))


def label_f1(decisions: Bool[np.ndarray, "n k"], truth: Bool[np.ndarray, "n k"]) -> LabelF1:
    """Micro: every decision counts the same. Macro: every class that has a positive does."""
    involved = int(decisions.sum()) + int(truth.sum())
    micro = 2.0 * int((decisions & truth).sum()) / involved if truth.any() else float("nan")
    return LabelF1(micro, label_scores(decisions, truth).macro_f1)


def exact_match(decisions: Bool[np.ndarray, "n k"], truth: Bool[np.ndarray, "n k"]) -> float:
    """The share of images whose every label is decided rightly; NaN without images."""
    return float((decisions == truth).all(axis=1).mean()) if len(truth) else float("nan")


def mean_of_known(values: Float[np.ndarray, "k"]) -> float:
    """The mean of those that are numbers; NaN if none is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _ratio_or_nan(part: Float[np.ndarray, "k"], whole: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k"]:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
