"""Which epoch's weights are kept: the latest that is not worse than the highest by more than chance explains.

n samples of the validation split
"""

import base64
import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from vitrail.learn.training.objective import Evaluation

Each = Bool[np.ndarray, "n"] | Float[np.ndarray, "n"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """What is remembered of an epoch, to compare later ones with it. JSON, so that a resumed run decides alike."""

    epoch: int  # from 1
    score: float  # higher is better
    collapsed: bool = False  # it predicted one class for everything
    each: str | None = None  # what each sample adds to the score, where that is their mean; see `pack`


@runtime_checkable
class Chosen(Protocol):
    """What of `Progress` counts here."""

    target: float | None
    highest: Mark | None
    kept: Mark | None


def consider(progress: Chosen, evaluation: Evaluation, *, epoch: int, score: float, sign: float) -> bool:
    """Whether the weights of this epoch replace those kept, which `progress` remembers. `sign`: 1 where a higher metric is better, else -1.

    They do unless the score is lower than the highest, or than that of the epoch kept, by more than one standard error of the difference,
    paired over the same samples. A score that is no mean over samples is compared by its own standard error. An epoch that predicts one class
    for everything never replaces one that does not.
    """
    each = getattr(evaluation, "per_sample", None)
    found = Mark(
        epoch=epoch,
        score=score,
        collapsed=bool(getattr(evaluation, "collapsed", False)),
        each=None if each is None or not len(each) else pack(each if sign > 0 else ~each if each.dtype == bool else -each),
    )
    if progress.highest is not None and progress.highest.collapsed and not found.collapsed:
        progress.highest = progress.kept = progress.target = None  # whatever it scored
    ruled_out = progress.kept is not None and found.collapsed and not progress.kept.collapsed
    if not ruled_out:
        if progress.target is None or score - evaluation.error > progress.target:
            progress.target = score - evaluation.error
        if progress.highest is None or score > progress.highest.score:
            progress.highest = found
    before = [mark for mark in (progress.highest, progress.kept) if mark is not None]
    if ruled_out:
        better = False
    elif all(is_paired(found, mark) for mark in before):
        better = all(is_as_good(unpack(found.each or ""), unpack(mark.each or "")) for mark in before)
    else:
        better = score >= progress.target  # type: ignore[operator]
    if better:
        progress.kept = found
    return better


def recall(progress: Any, *, score: str, sign: float) -> None:
    """What an earlier version did not remember: the highest epoch and the one kept, from the rows of results.csv."""
    scored = [(sign * row[f"val_{score}"], int(row["epoch"])) for row in progress.rows if f"val_{score}" in row]
    if progress.highest is None and progress.best and scored:
        most, first = max(scored, key=lambda pair: pair[0])
        progress.highest = Mark(epoch=first, score=most)
        progress.kept = Mark(epoch=int(progress.best["epoch"]), score=sign * progress.best[score])


def is_paired(one: Mark, other: Mark) -> bool:
    """Whether both say of the same samples how each of them did: one may have become unreadable in between."""
    return one.each is not None and other.each is not None and one.each.split(":")[0] == other.each.split(":")[0]


def is_as_good(later: Each, earlier: Each) -> bool:
    """Whether the mean of `later` is at most one standard error of the paired difference below that of `earlier`.

    Of hits with l lost and g gained the difference is (g - l) / n and its variance ((l + g) - (g - l)^2 / n) / (n (n - 1)), so that the rule
    is (l - g)^2 <= l + g, McNemar's statistic of at most 1  [McNemar 1947].
    """
    if later.dtype == bool:
        lost, gained = int((earlier & ~later).sum()), int((later & ~earlier).sum())
        return lost <= gained or (lost - gained) ** 2 <= lost + gained
    difference = later.astype(np.float64) - earlier
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference)) if len(difference) > 1 else 0.0
    return float(difference.mean()) >= -error


def pack(each: Each) -> str:
    """`hits 180:` and the bits, or `values 180:` and numbers in single precision, in base 64."""
    kind, data = ("hits", np.packbits(each)) if each.dtype == bool else ("values", each.astype("<f4"))
    return f"{kind} {len(each)}:{base64.b64encode(data.tobytes()).decode()}"


def unpack(text: str) -> Each:
    head, _, data = text.partition(":")
    kind, count = head.split()
    read = base64.b64decode(data)
    if kind == "hits":
        return np.unpackbits(np.frombuffer(read, np.uint8), count=int(count)).astype(bool)
    return np.frombuffer(read, "<f4")


def epochs_without_gain(progress: Any) -> int:
    """Since the highest validation score, or since the end of the run was moved."""
    return int(progress.epoch - max(progress.highest.epoch, int(progress.ends[-1].epoch)))


def describe_patience(progress: Any, patience: int) -> str:
    epochs = f"{patience} epoch{'' if patience == 1 else 's'}"
    return f"stopped by --patience {patience} after epoch {progress.epoch}: {epochs} without a higher validation score, the highest was epoch {progress.highest.epoch}'s"


def describe_choice(progress: Any, *, unit: str) -> str:
    """The epoch that was kept, and the rule that chose it; `unit`: what samples are called."""
    kept, highest = progress.kept, progress.highest
    if kept is None or highest is None:  # of a run by an earlier version
        return f"best/ is epoch {progress.best['epoch']:.0f}" if progress.best else ""
    if len(progress.rows) == 1:
        return f"best/ is epoch {kept.epoch}, the only one{'; it predicts one class for everything' if kept.collapsed else ''}"
    if kept.epoch == highest.epoch:
        where = "which has the highest validation score"
    else:
        where = f"the latest within one standard error of the highest validation score, epoch {highest.epoch}'s"
    paired = f" (by the paired difference over {kept.each.split(':')[0].split()[1]} {unit})" if kept.each is not None else ""
    collapsed = "; like all others it predicts one class for everything" if kept.collapsed else ""
    return f"best/ is epoch {kept.epoch}, {where}{paired}{collapsed}"
