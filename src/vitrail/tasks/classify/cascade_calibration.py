"""When a stage of a cascade may answer: thresholds on its confidence, chosen on validation images.

n images, s stages, k classes. Stage i answers per image that has come to it if its confidence is at least threshold i; the last
answers whatever is left. What is asked for is agreement with the last stage, so no labels are needed.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float, Int

from vitrail.errors import VitrailError

Measure = Literal["probability", "margin", "entropy"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
NEVER = 2.0  # a threshold that no confidence reaches: the stage is not even run
DIVISIONS = 100  # ways to divide the allowed disagreements among stages that are tried, at most


class Table(NamedTuple):
    """What the stages say of some images, and what they cost."""

    answers: Int[np.ndarray, "s n"]
    confidences: Float[np.ndarray, "s n"]  # those of the last stage decide nothing
    costs: Float[np.ndarray, "s"]  # of one image


class Outcome(NamedTuple):
    """A cascade on some images."""

    thresholds: tuple[float, ...]  # of all stages but the last
    agreement: float  # share of images answered as the last stage answers them
    cost: float  # of one image, on average
    shares: tuple[float, ...]  # of images that each stage answers


def confidence(probabilities: Float[np.ndarray, "n k"], measure: Measure) -> Float[np.ndarray, "n"]:
    """How sure a stage is, from 0 to 1: max p, the two largest p apart, or 1 - H(p) / log k."""
    if measure == "probability":
        return probabilities.max(axis=1)
    if measure == "margin":
        if probabilities.shape[1] == 1:
            return np.ones(len(probabilities), dtype=probabilities.dtype)
        ordered = np.partition(probabilities, -2, axis=1)
        return ordered[:, -1] - ordered[:, -2]
    logs = np.log(np.maximum(probabilities, np.finfo(probabilities.dtype).tiny))
    return np.clip(1 + (probabilities * logs).sum(axis=1) / math.log(max(2, probabilities.shape[1])), 0, 1)


def allowed_disagreements(images: int, agreement: float, *, sure: float | None = None) -> int:
    """How many of the images may be answered otherwise than by the last stage.

    With `sure`, the largest count that a cascade of less agreement would stay below with a probability of at most 1 - sure:
    P(Binomial(images, 1 - agreement) <= count) <= 1 - sure, the one-sided bound of [Clopper and Pearson 1934].
    """
    if not 0 < agreement <= 1:
        raise VitrailError(f"agreement must be a share above 0 and at most 1, got {agreement}")
    if not images:
        raise VitrailError("a cascade is calibrated on validation images: there are none")
    if sure is None:
        return math.floor(images * (1 - agreement) + 1e-9)
    if not 0 < sure < 1:
        raise VitrailError(f"sure must lie between 0 and 1, got {sure}")
    if agreement == 1:
        raise VitrailError("agreement 1 can be counted, not be sure of: no number of images proves it; leave out sure")
    miss, total, count = 1 - agreement, 0.0, 0
    while True:
        ways = math.lgamma(images + 1) - math.lgamma(count + 1) - math.lgamma(images - count + 1)
        total += math.exp(ways + count * math.log(miss) + (images - count) * math.log1p(-miss))
        if total > 1 - sure:
            break
        count += 1
    if not count:
        least = math.ceil(math.log(1 - sure) / math.log(agreement))
        raise VitrailError(
            f"to be {sure:g} sure of an agreement of {agreement:g} takes at least {least:,} images, got {images:,}"
        )
    return count - 1


def route(confidences: Float[np.ndarray, "s n"], thresholds: tuple[float, ...]) -> Int[np.ndarray, "n"]:
    """The stage that answers each image: the first whose confidence reaches its threshold, else the last."""
    leaves = confidences[:-1] >= np.array(thresholds)[:, None]
    return np.where(leaves.any(axis=0), leaves.argmax(axis=0), len(thresholds)).astype(np.int64)


def outcome(table: Table, thresholds: tuple[float, ...]) -> Outcome:
    """What a cascade with these thresholds does."""
    stages, where = len(table.costs), route(table.confidences, thresholds)
    shares = np.bincount(where, minlength=stages) / len(where)
    agrees = table.answers[where, np.arange(len(where))] == table.answers[-1]
    paid = np.cumsum(running_costs(table, thresholds))
    return Outcome(thresholds, float(agrees.mean()), float(paid[where].mean()), tuple(shares.tolist()))


def running_costs(table: Table, thresholds: tuple[float, ...]) -> Float[np.ndarray, "s"]:
    """What each stage costs an image that comes to it: nothing where it is never asked."""
    return np.where(np.array([*thresholds, 0.0]) > 1, 0.0, table.costs)


def calibrate(table: Table, allowed: int) -> Outcome:
    """The cheapest thresholds found with at most `allowed` disagreements; of two stages the cheapest there are.

    For two stages one pass over the images by falling confidence is exact. For more, the allowed disagreements are divided among the
    stages in many ways, each stage in its turn letting as many go as its part allows; each result is then improved a threshold at a
    time, the others held, until nothing changes. No step ever allows more disagreements than `allowed`.
    """
    stages = len(table.costs)
    best: Outcome | None = None
    for parts in divide(allowed, stages - 1):
        thresholds = (NEVER,) * (stages - 1)
        for stage, budget in enumerate(itertools.accumulate(parts)):
            thresholds = improve(table, thresholds, stage, budget)
        found = polish(table, thresholds, allowed)
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    return best


def divide(total: int, stages: int) -> Iterator[tuple[int, ...]]:
    """Ways to give each stage a part of `total`, in even steps; all of it to one stage if there is one."""
    steps = 1
    while stages > 1 and steps < total and math.comb(steps + stages, stages - 1) <= DIVISIONS:
        steps += 1
    for cuts in itertools.combinations_with_replacement(range(steps + 1), stages - 1):
        ends = [total * cut // steps for cut in cuts] + [total]
        yield tuple(after - before for before, after in itertools.pairwise([0, *ends]))


def polish(table: Table, thresholds: tuple[float, ...], allowed: int) -> Outcome:
    """Each threshold in turn, as long as the cost falls."""
    found = outcome(table, thresholds)
    while True:
        for stage in range(len(thresholds)):
            thresholds = improve(table, thresholds, stage, allowed)
        again = outcome(table, thresholds)
        if not again.cost < found.cost:
            return found
        found = again


def improve(table: Table, thresholds: tuple[float, ...], stage: int, allowed: int) -> tuple[float, ...]:
    """The thresholds with that of one stage as cheap as it can be, the others held: exact, by one sort."""
    costs = running_costs(table, (*thresholds[:stage], 0.0, *thresholds[stage + 1 :]))
    later = (*thresholds[:stage], NEVER, *thresholds[stage + 1 :])
    otherwise = route(table.confidences, later)  # where each image is answered if this stage lets none go
    here = otherwise > stage  # those that come to it
    wrong = table.answers != table.answers[-1]
    own = table.confidences[stage, here]
    order = np.argsort(-own, kind="stable")
    own = own[order]
    paid = np.cumsum(costs)
    numbers = np.flatnonzero(here)[order]
    more_wrong = wrong[stage, numbers].astype(np.int64) - wrong[otherwise[numbers], numbers]
    less_paid = paid[otherwise[numbers]] - paid[stage]
    disagreements = int(wrong[otherwise, np.arange(len(otherwise))].sum()) + np.cumsum(more_wrong)
    saved = np.cumsum(less_paid) - costs[stage] * len(own)  # against a cascade without this stage
    ends = np.append(own[1:] < own[:-1], True) if len(own) else np.zeros(0, dtype=bool)  # images of one confidence go together
    fits = ends & (disagreements <= allowed) & (saved > 0)
    if not fits.any():
        return later
    last = int(np.flatnonzero(fits)[np.argmax(saved[fits])])
    return (*thresholds[:stage], between(own, last), *thresholds[stage + 1 :])


def between(falling: Float[np.ndarray, "n"], last: int) -> float:
    """A threshold that the first last + 1 of the falling confidences reach and the others do not: halfway, where there is room."""
    if last + 1 == len(falling):
        return 0.0
    upper, lower = float(falling[last]), float(falling[last + 1])
    middle = (upper + lower) / 2
    return middle if lower < middle <= upper else upper


def agreements(table: Table, thresholds: tuple[float, ...]) -> tuple[float | None, ...]:
    """Of the images that each stage answers, the share on which it agrees with the last; None where it answers none."""
    where, agrees = route(table.confidences, thresholds), table.answers == table.answers[-1]
    here = [agrees[stage, where == stage] for stage in range(len(table.costs))]
    return tuple(float(some.mean()) if len(some) else None for some in here)
