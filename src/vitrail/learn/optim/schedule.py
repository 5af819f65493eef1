"""The learning rate over a run."""

import math


def warmup_cosine(progress: float, *, warmup: float = 0.05, floor: float = 0.0) -> float:
    """Factor of the peak rate at `progress` in [0, 1]: linear from 0 over `warmup`, then half a cosine down to `floor`.

    [Loshchilov+ 2017, eq. 5, without restarts]. A function of the share of the run that is done, not of a step count, so
    that a run bounded by minutes has the same schedule as one bounded by epochs.
    """
    if progress < warmup:
        return progress / warmup
    done = min(1.0, (progress - warmup) / (1.0 - warmup))
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * done))


def inverse_square_root(progress: float, *, warmup: float = 0.05) -> float:
    """Factor of the peak rate at `progress` in [0, 1]: min(progress / warmup, sqrt(warmup / progress)).

    [Vaswani+ 2017, eq. 3], divided by its largest value, which it has at the end of the warm-up: there the rate itself is
    width^-0.5 steps^-0.5, here it is what the plan says. In shares of the run, as above. Without a warm-up it stays at 1.
    """
    if progress < warmup:
        return progress / warmup
    return math.sqrt(warmup / progress) if warmup > 0.0 else 1.0


def cosine_between(begin: float, end: float, progress: float) -> float:
    """From `begin` to `end` along half a cosine, at `progress` in [0, 1]: how DINO's momentum and weight decay rise  [Caron+ 2021, section 3.2]."""
    return end + (begin - end) * 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))
