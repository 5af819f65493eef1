"""Where a run ends, and the place in its schedule on the way there. A run that is resumed may be given another end.

The schedule of a run (learning rate, image size, momentum of a teacher) is a function of a place in [0, 1]. Without a change of the end the
place is the share of the run that is done. With the end moved at place p, what is left of the schedule, [p, 1], is spread over what is left of
the run. A run whose schedule is at its end has nothing left: its learning rate goes back, over the first tenth of the rest, to where a run of
the new length would have it, and falls with that. Either way no value jumps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from vitrail.learn.training.plan import Plan

RISE = 0.1  # share of the rest of a run whose schedule was at its end
Stopped = Literal["finish", "patience"]


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """Where a run ends, `minutes` where given, else `epochs`; and where it stood when that was said."""

    epochs: int
    minutes: float | None = None
    last: int = 0  # the step that ends it, of epochs
    step: int = 0
    epoch: float = 0.0  # epochs done, and a share of the next
    elapsed: float = 0.0  # seconds
    place: float = 0.0  # in the schedule of the learning rate
    reached: float = 0.0  # in all other schedules, which never go back
    read: bool = False  # test was read at the end before this one

    def is_at(self, epochs: int, minutes: float | None) -> bool:
        """Whether a run of this length ends here."""
        return (self.minutes, None if minutes is not None else self.epochs) == (
            minutes,
            None if minutes is not None else epochs,
        )

    def __str__(self) -> str:
        if self.minutes is not None:
            return f"{self.minutes:g} minute{'' if self.minutes == 1 else 's'}"
        return f"{self.epochs} epoch{'' if self.epochs == 1 else 's'}"


@runtime_checkable
class Standing(Protocol):
    """What of `Progress` counts here."""

    epoch: int
    batch: int
    step: int
    planned: int
    elapsed: float
    finished: bool
    stopped: Stopped | None
    ends: list[End]


class Place(NamedTuple):
    rate: float  # in the schedule of the learning rate
    others: float  # in all other schedules


def share_done(progress: Standing) -> float:
    """How much of the run is done, in [0, 1]."""
    return _share(progress.ends[-1], progress.step, progress.elapsed)


def place_of(progress: Standing, plan: Plan, *, ahead: float = 0.0) -> Place:
    """Where a run stands in its schedules; `ahead`: in so many steps, of a run that is counted in steps."""
    end = progress.ends[-1]
    done = share_done(progress) + (ahead / end.last if end.minutes is None else 0.0)
    if len(progress.ends) == 1:
        return Place(done, done)
    begin = _share(end, end.step, end.elapsed)
    rest = min(1.0, max(0.0, (done - begin) / (1.0 - begin))) if begin < 1.0 else 1.0  # it may end where it stood
    if end.place < 1.0:
        place = end.place + (1.0 - end.place) * rest
    else:
        peak = plan.probe + plan.warmup * (1.0 - plan.probe)  # where the rate begins to fall
        place = 1.0 + min(1.0, rest / RISE) * (min(1.0, max(done, peak)) - 1.0)
    return Place(place, max(end.reached, place))


def set_end(progress: Standing, plan: Plan, steps_per_epoch: int, say: Callable[[str], None]) -> bool:
    """Whether the plan has another end than the run had until now; then that one holds from the present step on."""

    def first(epochs: int, minutes: float | None) -> list[End]:
        return [End(epochs=epochs, minutes=minutes, last=epochs * steps_per_epoch)]

    if not progress.ends:
        progress.ends = first(*(plan.began_with or (plan.epochs, plan.minutes)))
    before = progress.ends[-1]
    if before.is_at(plan.epochs, plan.minutes):
        return False
    if progress.step:
        end = moved_end(progress, plan, steps_per_epoch)
        progress.ends = [*progress.ends, end]
        say(
            f"from step {end.step} on, {end.epoch:g} epoch{'' if end.epoch == 1 else 's'} into the run, it ends at {end} instead of {before}"
        )
    else:
        progress.ends = first(plan.epochs, plan.minutes)
    progress.finished, progress.stopped = False, None
    return True


def moved_end(progress: Standing, plan: Plan, steps_per_epoch: int) -> End:
    """That of the plan, from the present step on."""
    place = place_of(progress, plan)
    return End(
        epochs=plan.epochs,
        minutes=plan.minutes,
        last=progress.step
        + (plan.epochs - progress.epoch) * steps_per_epoch
        - progress.batch,  # an epoch may have been cut short
        step=progress.step,
        epoch=round(progress.epoch + progress.batch / steps_per_epoch, 4),
        elapsed=progress.elapsed,
        place=min(1.0, place.rate),
        reached=min(1.0, place.others),
        read=progress.finished and plan.scored,
    )


def end_early(progress: Standing, why: Stopped) -> None:
    """The end, before the one that was set."""
    progress.finished, progress.stopped, progress.planned = True, why, progress.step


def _share(end: End, step: int, elapsed: float) -> float:
    return step / end.last if end.minutes is None else elapsed / (60.0 * end.minutes)
