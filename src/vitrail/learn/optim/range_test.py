"""The learning-rate range test: raise the rate at every step, watch the loss, choose the rate.

n steps
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vitrail.errors import VitrailError

BLUR = 0.12  # decades of rate; seven steps of the usual hundred lie within twice that
RECENT = 5  # steps whose mean decides about stopping: one easy batch must not end the test
MARGIN = 10.0  # between the rate at which learning breaks and the one to train at


class RangeTest(NamedTuple):
    """What was tried, what it gave, and the choice."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]  # finite ones only, one a rate
    chosen: float


def run_range_test(
    loss_of_step: Callable[[float], float], *, lowest: float = 1e-6, highest: float = 1.0, steps: int = 100
) -> RangeTest:
    """Rates from `lowest` to `highest` in equal ratios  [Smith 2017, section 3.3], one training step each.

    Ends early at a loss that is not finite, or when the last five losses are at four times the best five's mean.
    """
    if not (0.0 < lowest < highest < math.inf and steps >= 2):
        raise VitrailError(f"a range test needs 0 < lowest < highest and 2 steps, got {lowest:g}, {highest:g} and {steps}")
    rates = np.geomspace(lowest, highest, steps).tolist()
    losses: list[float] = []
    for rate in rates:
        loss = float(loss_of_step(rate))
        if not math.isfinite(loss):
            break
        losses.append(loss)
        if recent_means(losses)[-1] > diverged_above(losses)[-1]:
            break
    if not losses:
        raise VitrailError(f"the loss is not finite at the very first step of the range test, at a rate of {lowest:g}")
    tried = rates[: len(losses)]
    return RangeTest(tuple(tried), tuple(losses), choose_rate(tried, losses))


def recent_means(losses: Sequence[float]) -> Float[np.ndarray, "n"]:
    """At each step, the mean of the last five losses, of fewer at the start."""
    return np.array([np.mean(losses[max(0, end - RECENT) : end]) for end in range(1, len(losses) + 1)])


def diverged_above(losses: Sequence[float]) -> Float[np.ndarray, "n"]:
    """At each step, four times the best recent mean so far, said so that it lies above a best of any sign."""
    best = np.minimum.accumulate(recent_means(losses))
    return best + 3.0 * np.abs(best)


def choose_rate(rates: Sequence[float], losses: Sequence[float]) -> float:
    """A tenth of the largest rate at which the smoothed loss is still at its floor, that is, within its noise of the lowest.

    Why not the steepest descent: a slope magnifies noise, and how early the loss falls says more about the first weights
    than about the rate. On `digits` with batches of 16, over three seeds, the steepest place is at 4e-3 to 1e-1, and this choice
    at 9e-4 to 1.5e-3. A loss that never breaks gives a tenth of the highest rate tried; one that never falls, a tenth of where
    it rises; one that rises from the first, a rate below all those tried.
    """
    if len(rates) != len(losses) or not rates:
        raise ValueError(f"rates and losses must pair up, got {len(rates)} and {len(losses)}")
    smooth = smooth_losses(rates, losses)
    deviations = np.abs(np.asarray(losses, dtype=np.float64) - smooth)
    noise = float(np.median(deviations)) / 0.6745  # a standard deviation; a median overlooks the last, wild losses
    floor = np.flatnonzero(smooth <= smooth.min() + noise)
    return rates[int(floor[-1])] / MARGIN


def smooth_losses(rates: Sequence[float], losses: Sequence[float]) -> Float[np.ndarray, "n"]:
    """Means of the losses weighted by exp(-(x - x')^2 / (2 blur^2)), x the decimal logarithm of the rate.

    Centered, so the curve is not moved towards higher rates as a running mean would move it. What is far beyond divergence is
    cut to its threshold first: one loss of a million would lift its neighbors.
    """
    values = np.asarray(losses, dtype=np.float64)
    values = np.minimum(values, diverged_above(losses))
    decades = np.log10(np.asarray(rates, dtype=np.float64))
    weights = np.exp(-0.5 * ((decades[:, None] - decades[None, :]) / BLUR) ** 2)
    return (weights @ values) / weights.sum(axis=1)
