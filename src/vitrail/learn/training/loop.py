"""The training loop: one visible loop for every task."""

import contextlib
import math
import time
from dataclasses import dataclass
from typing import Any, Literal

import torch

from vitrail.errors import VitrailError
from vitrail.learn.optim.groups import decay_groups
from vitrail.learn.optim.schedule import warmup_cosine
from vitrail.learn.training.interruption import Interrupted, Interruption
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.run_folder import RunFolder
from vitrail.learn.training.state import Progress, Row, latest_state, load_state, save_state
from vitrail.learn.training.task import Batches, Task

Precision = Literal["fp32", "bf16"]
SECONDS_BETWEEN_CHECKPOINTS = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How long and how fast to learn. `minutes`, where given, bounds the run instead of `epochs`."""

    epochs: int
    minutes: float | None = None
    lr: float
    weight_decay: float
    warmup: float  # share of the run
    clip: float  # largest norm of the gradient
    device: str = "cpu"
    precision: Precision = "fp32"


def fit(task: Task, train: Batches, validation: Batches, plan: Plan, run: RunFolder, bar: ProgressBar) -> Progress:
    """Train until the plan is fulfilled, from the newest checkpoint of `run` if there is one.

    Each epoch ends with a validation, a row in results.csv, last/, a checkpoint and, if the score is the best yet, best/; a
    long epoch has a checkpoint every two minutes. An interruption saves within a step and raises `Interrupted`.
    """
    model, device = task.model, torch.device(plan.device)
    fused = device.type in ("cpu", "cuda")
    optimizer = torch.optim.AdamW(decay_groups(model, plan.weight_decay), lr=plan.lr, betas=(0.9, 0.999), fused=fused)
    checkpoint = latest_state(run.state)
    progress = Progress() if checkpoint is None else load_state(checkpoint, model, optimizer)
    run.keep_steps(progress.step)
    total = plan.epochs * len(train)
    records: list[Row] = []

    def keep() -> None:
        run.record_steps(records)
        records.clear()
        save_state(run.state, progress, model, optimizer)
        clock.saved = time.perf_counter()

    with Interruption() as interruption, bar:
        clock = _Stopwatch(progress)
        try:
            while not progress.finished:
                clock.start_epoch(progress)
                model.train()
                for batch in train.batches(progress.epoch, progress.batch):
                    done = share_done(progress, plan, total)
                    progress.rate = plan.lr * warmup_cosine(
                        done + (0.5 / total if plan.minutes is None else 0.0), warmup=plan.warmup
                    )
                    for group in optimizer.param_groups:
                        group["lr"] = progress.rate
                    with autocast(plan):
                        loss = task.loss(to_device(batch, device))
                    value = check_finite("loss", loss.item(), progress, plan)
                    optimizer.zero_grad(set_to_none=True)
                    loss.backward()  # type: ignore[no-untyped-call]
                    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), plan.clip).item()
                    check_finite("gradient", norm, progress, plan)
                    optimizer.step()
                    progress.step, progress.batch = progress.step + 1, progress.batch + 1
                    progress.loss_sum += value
                    clock.tick(progress)
                    records.append(
                        {"step": progress.step, "epoch": progress.epoch, "loss": value, "lr": progress.rate, "gradient": norm}
                    )
                    _show(bar, progress, plan, total, len(train), clock.pictures_a_second(batch), value)
                    if interruption.signal is not None or share_done(progress, plan, total) >= 1.0:
                        break
                    if clock.due():  # a long epoch is not lost with the machine
                        keep()
                interruption.check()
                _end_epoch(task, validation, plan, progress, run, bar)
                clock.tick(progress)
                progress.finished = share_done(progress, plan, total) >= 1.0
                keep()
                interruption.check()
        except Interrupted as stop:
            stop.where = run.path
            run.save_model("last", model)
            keep()
            raise
    return progress


def _end_epoch(task: Task, validation: Batches, plan: Plan, progress: Progress, run: RunFolder, bar: ProgressBar) -> None:
    """Validate, write the row, keep the best; then the next epoch begins."""
    with autocast(plan):
        evaluation = task.evaluate(validation.batches())
    metrics = dict(evaluation.metrics)
    check_finite("validation loss", metrics["loss"], progress, plan)
    row: Row = {"epoch": progress.epoch + 1, "train_loss": progress.loss_sum / max(1, progress.batch)}
    row |= {f"val_{name}": value for name, value in metrics.items()}
    row |= {"lr": progress.rate, "seconds": round(progress.elapsed, 2)}
    score = task.score
    if progress.target is None or metrics[score] - evaluation.error > progress.target:
        progress.target = metrics[score] - evaluation.error
    # The latest epoch within one standard error of the highest, not the highest: on a small validation set a lucky early epoch
    # beats the later ones, whose rate is lower, by a picture or two (docs/log.md has the trial).
    better = metrics[score] >= progress.target
    if better:
        progress.best = {**metrics, "epoch": progress.epoch + 1}
        run.save_model("best", task.model)
    progress.rows.append(row)
    run.write_results(progress.rows)
    run.save_model("last", task.model)
    of = f"/{plan.epochs}" if plan.minutes is None else ""
    bar.say(
        f"epoch {progress.epoch + 1:>3}{of}  train loss {row['train_loss']:.4f}  val loss {metrics['loss']:.4f}  "
        f"val {score} {100 * metrics[score]:.2f} %{'  *' if better else ''}"
    )
    progress.epoch, progress.batch, progress.loss_sum = progress.epoch + 1, 0, 0.0


def share_done(progress: Progress, plan: Plan, total: int) -> float:
    """How much of the run is done, in [0, 1]."""
    return progress.step / total if plan.minutes is None else progress.elapsed / (60.0 * plan.minutes)


def check_finite(what: str, value: float, progress: Progress, plan: Plan) -> float:
    """`value` itself; NaN and infinity end the run before they reach weights that are saved."""
    if not math.isfinite(value):
        raise VitrailError(f"the {what} became {value} at step {progress.step}: lower --lr (it is {plan.lr:g})")
    return value


def autocast(plan: Plan) -> contextlib.AbstractContextManager[Any]:
    if plan.precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(torch.device(plan.device).type, dtype=torch.bfloat16)


def to_device(batch: Any, device: torch.device) -> Any:
    """A batch is a NamedTuple of tensors."""
    return batch if device.type == "cpu" else type(batch)(*(part.to(device, non_blocking=True) for part in batch))


def _show(bar: ProgressBar, progress: Progress, plan: Plan, total: int, an_epoch: int, rate: float, loss: float) -> None:
    done = share_done(progress, plan, total)
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

    def pictures_a_second(self, batch: Any) -> float:
        return self.done * len(batch[0]) / max(1e-9, self.last - self.begin)
