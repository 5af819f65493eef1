"""The training loop: one visible loop for every task."""

import contextlib
import gc
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from vitrail.data.randomness import uniforms
from vitrail.errors import VitrailError
from vitrail.learn.optim.schedule import inverse_square_root, warmup_cosine
from vitrail.learn.training.best_epoch import consider, describe_patience, epochs_without_gain, recall
from vitrail.learn.training.checkpoint import Found, find_checkpoint, list_shards
from vitrail.learn.training.ends import end_early, place_of, set_end, share_done
from vitrail.learn.training.interruption import Interrupted, Interruption
from vitrail.learn.training.objective import Batches, Objective, Score, warning_of
from vitrail.learn.training.overview import Forecast
from vitrail.learn.training.plan import Plan as Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.resolution import shrink, size_at
from vitrail.learn.training.run_folder import RunFolder
from vitrail.learn.training.sharded_state import load_shards, save_shards
from vitrail.learn.training.sharding import is_sharded
from vitrail.learn.training.state import Progress, Row, load_state, save_state
from vitrail.learn.training.step import Stepper, Taken, autocast
from vitrail.learn.training.world import World

SECONDS_BETWEEN_CHECKPOINTS = 120.0
EARLY = 0.2  # share of a run before which nobody is warned: a new network says the same of everything
PROBE_WARMUP = 0.1  # share of the time in which only the head learns
BAD_STEPS = 3  # in a row, and the run goes back to the last checkpoint, once


def fit(
    objective: Objective, train: Batches, validation: Batches, plan: Plan, run: RunFolder, bar: ProgressBar, world: World | None = None, *,
    metrics: Sequence[Score] = (),
) -> Progress:  # fmt: skip
    """Train until the plan is fulfilled, from the newest checkpoint of `run` if there is one; of a plan with another end, until that one.

    Each epoch ends with a validation, a row in results.csv, last/, a checkpoint and, if the score is the best yet, best/; a
    long epoch has a checkpoint every two minutes. An interruption saves within a step and raises `Interrupted`. A step whose
    loss or gradient is not finite is not taken; after three in a row the run goes back to its last checkpoint with half the
    rate, and if that does not help it stops. With several processes the first one writes, and all take the same decisions. `metrics` say
    which scores are better and how they are printed; of an unknown one the higher is.
    """
    world = world or World()
    progress, records = Progress(), list[Row]()
    stepper = Stepper(objective, plan, world)

    def restore() -> bool:
        """Put everything where the newest checkpoint has it."""
        found = find_checkpoint(run.state) if world.first else Found(None, ())
        for line in found.faults:
            bar.say(f"passed over: {line}")
        name = world.share(None if found.checkpoint is None else found.checkpoint.name)  # all read the same one
        if name is not None:
            checkpoint, extra = run.state / name, {} if stepper.average is None else stepper.average.state()
            if is_sharded(objective.model) or list_shards(checkpoint):
                kept = load_shards(checkpoint, objective.model, stepper.optimizer, world, extra=extra)
            else:
                kept, extra = load_state(checkpoint, objective.model, stepper.optimizer)
            for field in fields(Progress):
                setattr(progress, field.name, getattr(kept, field.name))
            if stepper.average is not None:
                stepper.average.load(extra)
        recall(progress, score=objective.score, sign=_sign(objective.score, metrics))
        run.keep_steps(progress.step)
        world.wait()  # nobody writes the next one while another still reads this
        return name is not None

    def keep() -> None:
        run.record_steps(records)
        records.clear()
        extra = {} if stepper.average is None else stepper.average.state()
        if is_sharded(objective.model):
            save_shards(run.state, progress, objective.model, stepper.optimizer, world, extra=extra)
        elif world.first:
            save_state(run.state, progress, objective.model, stepper.optimizer, extra=extra)
        world.wait()
        clock.saved = time.perf_counter()

    with Interruption() as interruption, bar, _frozen():
        found = restore()
        forecast = Forecast(plan, steps=len(train), validated=len(validation), done=progress.step)
        clock = _Stopwatch(progress)
        moved = set_end(progress, plan, len(train), bar.say)
        if not found or moved:
            keep()  # from now on there is always a state to go back to
            clock = _Stopwatch(progress)
        try:
            if plan.finish and not progress.finished:
                if not progress.step:
                    raise VitrailError("--finish: no step was taken yet, so there is nothing to score")
                if progress.batch or not progress.rows:
                    with stepper.averaged():
                        _end_epoch(objective, validation, plan, progress, run, bar, world, known=metrics)
                end_early(progress, "finish")
                keep()
                interruption.check()
            while not progress.finished:
                clock.start_epoch(progress)
                objective.model.train()
                for batch in train.batches(progress.epoch, progress.batch):
                    place = place_of(progress, plan, ahead=0.5)  # the middle of the step
                    progress.rate = progress.factor * plan.lr * rate_factor(plan, place.rate)
                    if world.size > 1:  # else all would drop the same units; and so nobody's generator need be saved
                        torch.manual_seed(_seed_of_step(plan.seed, progress.step, world.rank))
                    if plan.progressive < 1.0:
                        size = size_at(place.others, batch[0].shape[-2:], start=plan.progressive, multiple=plan.multiple)
                        batch = shrink(batch, size)
                    taken = stepper.take(batch, progress.rate, place.others, progress.step)
                    progress.step, progress.batch = progress.step + 1, progress.batch + 1
                    clock.tick(progress)
                    progress.elapsed, stopping = world.mean([progress.elapsed, float(interruption.signal is not None)])
                    records.append({"step": progress.step, "epoch": progress.epoch, "loss": taken.loss, "lr": progress.rate,
                                    "gradient": taken.norm, **({} if taken.auxiliary is None else {"auxiliary_loss": taken.auxiliary})})  # fmt: skip
                    _count(progress, taken, bar)
                    if line := forecast.take(place.others, last=progress.batch == len(train)):
                        bar.say(line)
                    if progress.in_a_row == BAD_STEPS:
                        break
                    _show(bar, progress, plan, len(train), clock.images_per_second(batch), taken.loss)
                    if stopping and interruption.signal is None:
                        interruption.signal = signal.SIGTERM  # another process was asked to stop: all do
                    if stopping or share_done(progress) >= 1.0:
                        break
                    if clock.due():  # a long epoch is not lost with the machine
                        keep()
                interruption.check()
                if progress.in_a_row == BAD_STEPS:
                    _go_back(progress, plan, restore)
                    records.clear()
                    keep()
                    continue
                with stepper.averaged():
                    _end_epoch(objective, validation, plan, progress, run, bar, world, known=metrics)
                clock.tick(progress)
                done = share_done(progress)
                progress.finished, progress.planned = done >= 1.0, round(progress.step / done)
                if not progress.finished and plan.patience is not None and epochs_without_gain(progress) >= plan.patience:
                    end_early(progress, "patience")
                    bar.say(describe_patience(progress, plan.patience))
                keep()
                interruption.check()
        except Interrupted as stop:
            stop.where = run.path
            with stepper.averaged():
                run.save_model("last", objective.model)
            keep()
            raise
    return progress


@contextlib.contextmanager
def _frozen() -> Iterator[None]:
    """Inside, Python's garbage collector passes over what exists now: looking through all of torch's objects takes 0.1 s each time."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _count(progress: Progress, taken: Taken, bar: ProgressBar) -> None:
    """A step that was taken, or one that was skipped."""
    if taken.finite:
        progress.loss_sum, progress.in_a_row = progress.loss_sum + taken.loss, 0
        return
    progress.skipped, progress.in_a_row = progress.skipped + 1, progress.in_a_row + 1
    what = "loss" if not math.isfinite(taken.loss) else "gradient"
    value = taken.norm if math.isfinite(taken.loss) else taken.loss
    bar.say(f"step {progress.step}: the {what} became {value}; skipped ({progress.skipped} so far)")


def _go_back(progress: Progress, plan: Plan, restore: Callable[[], bool]) -> None:
    """To the last good state, with half the rate; a second time there is no use in it."""
    if progress.rollbacks:
        raise VitrailError(
            f"the loss or its gradient was not finite {BAD_STEPS} times in a row at step {progress.step}, again after going back "
            f"and halving the rate: lower --lr (it is {plan.lr:g})"
        )
    skipped, elapsed, factor = progress.skipped, progress.elapsed, progress.factor
    restore()
    progress.skipped, progress.elapsed, progress.factor = skipped, elapsed, 0.5 * factor
    progress.in_a_row, progress.rollbacks = 0, progress.rollbacks + 1


def _seed_of_step(seed: int, step: int, rank: int) -> int:
    return int(uniforms(seed, step, np.array([rank]), count=1)[0, 0] * 2**53)


def _sign(score: str, known: Sequence[Score]) -> float:
    """1 where a higher score is better, else -1."""
    metric = next((one for one in known if one.key == score), None)
    return 1.0 if metric is None or metric.higher_is_better else -1.0


def _end_epoch(
    objective: Objective, validation: Batches, plan: Plan, progress: Progress, run: RunFolder, bar: ProgressBar, world: World, *,
    known: Sequence[Score],
) -> None:  # fmt: skip
    """Validate, write the row, keep the best; then the next epoch begins."""
    done = share_done(progress)
    with autocast(plan):
        evaluation = objective.evaluate(validation.batches())
    metrics = dict(evaluation.metrics)
    check_finite("validation loss", metrics["loss"], progress, plan)
    row: Row = {"epoch": progress.epoch + 1, "train_loss": progress.loss_sum / max(1, progress.batch)}
    row |= {f"val_{name}": value for name, value in metrics.items()}
    row |= {"lr": progress.rate, "seconds": round(progress.elapsed, 2)}
    score = objective.score
    sign = _sign(score, known)
    better = plan.keep_last or consider(progress, evaluation, epoch=progress.epoch + 1, score=sign * metrics[score], sign=sign)
    better = world.share(better)
    if better:
        progress.best = {**metrics, "epoch": progress.epoch + 1}
        run.save_model("best", objective.model)
    progress.rows.append(row)
    run.write_results(progress.rows)
    run.save_model("last", objective.model)
    of = f"/{plan.epochs}" if plan.minutes is None else ""
    bar.say(
        f"epoch {progress.epoch + 1:>3}{of}  train loss {row['train_loss']:.4f}  val loss {metrics['loss']:.4f}  "
        f"val {describe_scores(score, metrics, known)}{'  *' if better else ''}"
    )
    if (warning := warning_of(evaluation)) and done >= EARLY:
        bar.say(f"  warning: {warning}")
    progress.epoch, progress.batch, progress.loss_sum = progress.epoch + 1, 0, 0.0


def describe_scores(score: str, metrics: Mapping[str, float], known: Sequence[Score]) -> str:
    """The score, and what else is printed after each epoch."""
    printed = [one for one in known if one.key == score] + [one for one in known if one.each_epoch and one.key != score]
    if not printed:
        return f"{score} {100 * metrics[score]:.2f} %"
    return "  ".join(f"{one.short} {one.format(metrics[one.key])}" for one in printed if one.key in metrics)


def rate_factor(plan: Plan, done: float) -> float:
    """Of the peak rate, at a share `done` of the run, as the plan's schedule has it; before it begins, what the head alone learns with."""
    if done < plan.probe:
        return min(1.0, done / (PROBE_WARMUP * plan.probe))
    if plan.probe:
        done = (done - plan.probe) / (1.0 - plan.probe)
    if plan.schedule == "cosine":
        return warmup_cosine(done, warmup=plan.warmup)
    if plan.schedule == "inverse_sqrt":
        return inverse_square_root(done, warmup=plan.warmup)
    return min(1.0, done / plan.warmup) if plan.warmup else 1.0


def check_finite(what: str, value: float, progress: Progress, plan: Plan) -> float:
    """`value` itself; NaN and infinity end the run before they reach weights that are saved."""
    if not math.isfinite(value):
        raise VitrailError(f"the {what} became {value} at step {progress.step}: lower --lr (it is {plan.lr:g})")
    return value


def _show(bar: ProgressBar, progress: Progress, plan: Plan, an_epoch: int, rate: float, loss: float) -> None:
    done = share_done(progress)
    left = progress.elapsed / done * (1 - done) if done > 0 else 0.0
    of = f"/{plan.epochs}" if plan.minutes is None else ""
    bar.update(progress.batch / an_epoch, epoch=f"{progress.epoch + 1}{of}", loss=loss, rate=rate, left=left)


class _Stopwatch:
    """Adds the time that passes to `progress.elapsed`, and knows how fast the current epoch runs."""

    def __init__(self, progress: Progress) -> None:
        self.last = self.saved = time.perf_counter()
        self.start_epoch(progress)

    def start_epoch(self, progress: Progress) -> None:
        self.begin, self.first = time.perf_counter(), progress.batch  # `last` runs on: saving counts too

    def tick(self, progress: Progress) -> None:
        now = time.perf_counter()
        progress.elapsed += now - self.last
        self.last, self.done = now, progress.batch - self.first

    def due(self) -> bool:
        return self.last - self.saved > SECONDS_BETWEEN_CHECKPOINTS

    def images_per_second(self, batch: Any) -> float:
        return self.done * len(batch[0]) / max(1e-9, self.last - self.begin)
