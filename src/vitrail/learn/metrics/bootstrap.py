"""How far a score could be from what other images of the same kind would give  [Efron 1979].

n images, r resamples
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Integer, Num

FEW = 64  # so many different values are drawn as counts instead of one by one
AT_ONCE = 1 << 20  # draws held in memory


def bootstrap_interval(
    values: Num[np.ndarray, "n"] | Bool[np.ndarray, "n"], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """The percentile interval of a mean, such as that of right (1) and wrong (0) answers.

    It knows only what happened: without a single mistake (or right answer) it has no width. (NaN, NaN) without images.
    """
    count, generator = len(values), np.random.default_rng(seed)
    if not count:
        return float("nan"), float("nan")
    values = values.astype(np.float64)
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= FEW:  # how often each value is drawn is multinomial: the same distribution, without n draws
        means = generator.multinomial(count, counts / count, size=resamples) @ distinct / count
    else:
        rows = max(1, AT_ONCE // count)
        means = np.concatenate(
            [
                values[generator.integers(count, size=(min(rows, resamples - start), count), dtype=np.int32)].mean(axis=1)
                for start in range(0, resamples, rows)
            ]
        )
    return percentiles(means, level)


def bootstrap_statistic(
    statistic: Callable[[Integer[np.ndarray, "n"]], float],
    count: int,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """The percentile interval of `statistic(indices)`, any number that follows from some of `count` images.

    Resamples for which it is not defined (NaN) are left out.
    """
    generator = np.random.default_rng(seed)
    found = [statistic(generator.integers(count, size=count)) for _ in range(resamples)] if count else []
    return percentiles(np.array(found, dtype=np.float64), level)


def percentiles(samples: Float[np.ndarray, "r"], level: float) -> tuple[float, float]:
    """The middle `level` of the samples that are numbers."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    samples = samples[~np.isnan(samples)]
    if not len(samples):
        return float("nan"), float("nan")
    low, high = np.quantile(samples, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)
