"""What `auto` would choose for a data set, and how long that training would take here: measured, not guessed."""

import os
import shlex
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vitrail.data.dataset import DataSet, Part
from vitrail.data.examples import spread
from vitrail.data.loading import Loader
from vitrail.data.transforms import read_fitted
from vitrail.jobs.classifying import make_task, plan_for, prepare_model
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import real, whole
from vitrail.jobs.settling import settle
from vitrail.learn.training.step import Stepper
from vitrail.learn.training.world import World
from vitrail.models.catalogue import count_parameters

STEPS, SECONDS = 12, 4.0  # training steps to time, and when to stop short of them
VALIDATION = 1 / 3  # of a training step's time: forward only


@dataclass(frozen=True, kw_only=True, slots=True)
class Suggestion:
    """A way to train, with its time on this machine in seconds."""

    model: str
    parameters: int
    image_size: tuple[int, int]
    batch: int
    recipe: str
    epochs: int
    device: str
    step_seconds: float
    read_seconds: float  # a picture, by one process
    epoch_seconds: float
    total_seconds: float
    command: str


def suggest(data: DataSet, source: str, *, seed: int, balance: str | None = None) -> Suggestion:
    """`data` is divided, `source` what the user would type; `balance` is added to the command where classes are unequal."""
    options = settle(TrainOptions(data=source, seed=seed), data)
    train, batch = data["train"], whole(options.batch)
    some = Part(train, np.array(spread(len(train), max(64, batch)), dtype=np.int64))
    model = prepare_model(options, replace(data, splits={**data.splits, "train": some}), None)
    few = spread(len(some), 32)
    begin = time.perf_counter()
    for index in few:
        read_fitted(some, index, model.preprocessing)
    read_seconds = (time.perf_counter() - begin) / len(few)
    step_seconds = time_step(model, some, options, data)
    steps = max(1, len(train) // batch)
    epochs = whole(options.epochs)
    compute = step_seconds * (steps + VALIDATION * len(data["val"]) / batch)
    reading = read_seconds * (len(train) + len(data["val"])) / (os.cpu_count() or 1)
    kept = options.cache in ("memory", "disk") or not train.encoded  # then files are decoded in the first epoch only
    total = epochs * compute + (1 if kept else epochs) * reading
    assert options.image_size is not None
    height, width = options.image_size[0], options.image_size[-1]
    size = str(height) if height == width else f"{height} {width}"
    words = f"--model {options.model} --image-size {size} --batch {batch} --recipe {options.recipe} --epochs {epochs}"
    return Suggestion(
        model=options.model,
        parameters=count_parameters(model),
        image_size=(height, width),
        batch=batch,
        recipe=options.recipe,
        epochs=epochs,
        device=options.device,
        step_seconds=step_seconds,
        read_seconds=read_seconds,
        epoch_seconds=total / epochs,
        total_seconds=total,
        command=f"vitrail train --data {shlex.quote(source)} {words}" + (f" --balance {balance}" if balance else ""),
    )


def time_step(model: Any, split: Part, options: TrainOptions, data: DataSet) -> float:
    """Seconds of a real training step, the median of a few, after one of two pictures: the first pays for imports and buffers."""
    alone = World()
    stepper = Stepper(
        make_task(options, data, model, options.device, alone), plan_for(options, model, device=options.device), alone
    )
    few, full = (next(iter(Loader(split, model.preprocessing, batch=size).batches())) for size in (2, whole(options.batch)))
    return time_steps(stepper, few, full, rate=real(options.lr))


def time_steps(stepper: Stepper, few: Any, full: Any, *, rate: float) -> float:
    """The median of some steps with a full batch, after one with a small one."""
    times = list[float]()
    stepper.task.model.train()
    while len(times) <= STEPS and sum(times[1:]) < SECONDS:
        begin = time.perf_counter()
        stepper.take(full if times else few, rate)  # its loss is read, which waits for an accelerator
        times.append(time.perf_counter() - begin)
    return float(np.median(times[1:]))
