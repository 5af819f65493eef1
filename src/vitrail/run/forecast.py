"""What `auto` would choose for data, and how long that training would take here, whatever the task: measured, not guessed."""

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import Part, Split
from vitrail.data.examples import spread
from vitrail.learn.training.step import Stepper
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.catalogue import count_parameters
from vitrail.models.reading.hub import without_network
from vitrail.run.plan import make_plan
from vitrail.run.prepare import resolve
from vitrail.tasks import registry
from vitrail.tasks.options import has_option
from vitrail.tasks.stages import Opened, Setup, ignore

STEPS, SECONDS = 12, 4.0  # training steps to time, and when to stop short of them
VALIDATION = 1 / 3  # of a training step's time: forward only
MEASURED = 64  # training images of which colors are measured


@dataclass(frozen=True, kw_only=True, slots=True)
class Suggestion:
    """A way to train, with its time on this machine in seconds."""

    model: str  # or the weights that it starts from
    parameters: int
    image_size: tuple[int, ...]
    batch: int
    recipe: str
    epochs: int
    device: str
    step_seconds: float
    read_seconds: float  # an image, by one process
    epoch_seconds: float
    total_seconds: float
    command: str


def suggest(data: Any, asked: Any, *, words: Mapping[str, Any] = MappingProxyType({})) -> Suggestion:
    """`data` is split, `asked` what the user would type; `words` are options that the command says beside it."""
    own, setup = registry.need_part(asked.task, "check").CHECK, rehearse(asked, data)
    options = setup.options
    cached = getattr(options, "cache", "off") in ("memory", "disk") or not getattr(data.splits["train"], "encoded", True)
    size: tuple[int, ...] = getattr(options, "image_size", None) or getattr(options, "crop", None) or ()
    said = {name: getattr(options, name) for name in own.in_command}
    return forecast(
        setup, size=size, validated=own.count_validated(setup), read_once=own.read_once and cached, words={**said, **words}
    )


def rehearse(asked: Any, data: Any) -> Setup[Any, Any, Any]:
    """All that a run is, without a pass over all of the data; of weights, those that are here: a look at data downloads nothing."""
    task = registry.find(asked.task)
    options = replace(asked, device=choose_device(asked.device))
    opened = Opened(data=data, bad=no_limit())
    with without_network():
        options = task.find_weights(options, opened, ignore)
        loaded = None if options.weights is None else task.load(options, ignore)
    resolved = resolve(options, opened, loaded, None)
    model = task.build(replace(resolved, data=with_few(resolved.data)), loaded)
    return Setup(options=resolved.options, data=resolved.data, extras=resolved.extras, bad=no_limit(), model=model)


def forecast(
    setup: Setup[Any, Any, Any], *, size: tuple[int, ...], validated: int, read_once: bool, words: Mapping[str, Any]
) -> Suggestion:
    """How long a run would take with the options it chose. `validated`: images, or windows, that the model sees after an epoch;
    `read_once`: whether files are read in the first epoch only; `words`: options of the command beside those that all have."""
    options, alone, task = setup.options, World(), registry.find(setup.options.task)
    trial = with_options(setup, workers=0, cache="off")
    loader = task.loaders(trial, alone)[0]
    smaller = with_options(trial, batch_size=min(2, options.batch_size), repeats=1)
    few = next(iter(task.loaders(smaller, alone)[0].batches()))
    begin = time.perf_counter()
    full = next(iter(loader.batches()))
    read_seconds = (time.perf_counter() - begin) / len(full.images)
    objective = task.objective(trial, device=options.device, world=alone)
    stepper = Stepper(objective, make_plan(task, trial, device=options.device), alone)
    step_seconds = time_steps(stepper, few, full, rate=options.lr)
    batch, epochs = options.batch_size, options.epochs
    compute = step_seconds * (len(loader) + VALIDATION * validated / batch)
    reading = read_seconds * (len(loader) * batch + validated) / (os.cpu_count() or 1)
    total = epochs * compute + (1 if read_once else epochs) * reading
    sides = size[:1] if len(set(size)) == 1 else size
    begins = {"model": options.model} if options.weights is None else {"weights": options.weights}
    said = {
        **begins, "crop" if len(size) == 3 else "image_size": sides, "batch_size": batch, "recipe": options.recipe,
        "epochs": epochs, **words,
    }  # fmt: skip
    named = "" if options.task == registry.DEFAULT else f" --task {options.task}"
    return Suggestion(
        model=options.weights or options.model,
        parameters=count_parameters(trial.model),
        image_size=size,
        batch=batch,
        recipe=options.recipe,
        epochs=epochs,
        device=options.device,
        step_seconds=step_seconds,
        read_seconds=read_seconds,
        epoch_seconds=total / epochs,
        total_seconds=total,
        command=f"vitrail train{named} --data {shlex.quote(options.data)} {' '.join(map(spell, said.items()))}",
    )


def with_options(setup: Setup[Any, Any, Any], **values: Any) -> Setup[Any, Any, Any]:
    """With other options, of those that the task has."""
    known = {name: value for name, value in values.items() if has_option(setup.options, name)}
    return replace(setup, options=replace(setup.options, **known))


def spell(option: tuple[str, Any]) -> str:
    """An option as the command line has it."""
    name, value = option
    return f"--{name.replace('_', '-')} {' '.join(map(str, value)) if isinstance(value, tuple) else value}"


def with_few(data: Any) -> Any:
    """The data with some of its training images; volumes stay."""
    train = data.splits["train"]
    if not isinstance(train, Split):
        return data
    some = Part(train, np.array(spread(len(train), MEASURED), dtype=np.int64))
    return replace(data, splits={**data.splits, "train": some})


def no_limit() -> BadFiles:
    return BadFiles(images=1, limit=float("inf"))


def time_steps(stepper: Stepper, few: Any, full: Any, *, rate: float) -> float:
    """The median of some steps with a full batch, after one with a small one, which pays for imports and buffers."""
    times = list[float]()
    stepper.objective.model.train()
    while len(times) <= STEPS and sum(times[1:]) < SECONDS:
        begin = time.perf_counter()
        stepper.take(full if times else few, rate)  # its loss is read, which waits for an accelerator
        times.append(time.perf_counter() - begin)
    return float(np.median(times[1:]))
