"""What `auto` would choose for data, and how long that training would take here, whatever the task: measured, not guessed."""

import os
import shlex
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet, Part
from vitrail.data.examples import spread
from vitrail.data.volumes.opening import VolumeData
from vitrail.data.volumes.reading import open_volume
from vitrail.jobs.classifying import Classifying, prepare_model
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import real, whole
from vitrail.jobs.segmenting import Segmenting
from vitrail.jobs.segmenting3d import COARSE, Segmenting3d
from vitrail.jobs.segmenting3d_settling import prepare_model as prepare_volume_segmenter
from vitrail.jobs.segmenting3d_settling import settle_volumes
from vitrail.jobs.segmenting_settling import counts_of, prepare_segmenter, settle_segmenting
from vitrail.jobs.settling import settle
from vitrail.jobs.trades import Trade
from vitrail.learn.training.step import Stepper
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.catalogue import count_parameters
from vitrail.models.sliding import cut_windows
from vitrail.run.plan import make_plan
from vitrail.tasks import registry
from vitrail.tasks.task import Opened, Setup

STEPS, SECONDS = 12, 4.0  # training steps to time, and when to stop short of them
VALIDATION = 1 / 3  # of a training step's time: forward only
MEASURED = 64  # training pictures of which colors are measured


@dataclass(frozen=True, kw_only=True, slots=True)
class Suggestion:
    """A way to train, with its time on this machine in seconds."""

    model: str
    parameters: int
    image_size: tuple[int, ...]
    batch: int
    recipe: str
    epochs: int
    device: str
    step_seconds: float
    read_seconds: float  # a picture, by one process
    epoch_seconds: float
    total_seconds: float
    command: str


def rehearse_classifying(options: TrainOptions, data: DataSet) -> Any:
    options = settle(options, data)
    return Classifying(data, prepare_model(options, with_few(data), None), options, no_limit())


@dataclass
class Rehearsed:
    """Until every task is ported: a task of the registry as a `Trade`."""

    task: Any
    setup: Any

    @property
    def options(self) -> Any:
        return self.setup.options

    @options.setter
    def options(self, options: Any) -> None:
        self.setup = replace(self.setup, options=options)

    @property
    def model(self) -> Any:
        return self.setup.model

    def make_loaders(self, world: World) -> Any:
        return self.task.loaders(self.setup, world)

    def make_task(self, *, device: str, world: World) -> Any:
        return self.task.objective(self.setup, device=device, world=world)

    def make_plan(self, *, device: str) -> Any:
        return make_plan(self.task, self.setup, device=device)


def rehearse(asked: TrainOptions, data: DataSet) -> Any:
    """Of a task of the registry."""
    task, kind = registry.find(asked.task), registry.options_of(asked.task)
    own = {} if asked.ignore_index is None else {"ignore_index": asked.ignore_index}
    options = kind(data=asked.data, seed=asked.seed, device=choose_device(asked.device), **own)
    resolved = task.resolve(options, Opened(data=data, bad=no_limit()), None, None)
    model = task.build(replace(resolved, data=with_few(data)), None).to(resolved.options.device)
    return Rehearsed(task, Setup(options=resolved.options, data=data, extras=resolved.extras, bad=resolved.bad, model=model))


def rehearse_segmenting(options: TrainOptions, data: DataSet) -> Any:
    counts = counts_of(data)
    options = settle_segmenting(options, data, counts=counts)
    return Segmenting(data, prepare_segmenter(options, with_few(data), None), options, no_limit(), counts=counts)


# Of each task what satisfies `jobs.trades.Trade`, without a pass over all of the data.
REHEARSALS: Mapping[str, Callable[[TrainOptions, DataSet], Any]] = MappingProxyType(
    {"classify": rehearse_classifying, "detect": rehearse, "segment": rehearse_segmenting}
)
# What a command says of a task's own options, beside what all say.
OWN: Mapping[str, tuple[str, ...]] = MappingProxyType({"detect": ("num_queries",)})


def suggest(data: DataSet, asked: TrainOptions, *, balance: str | None = None) -> Suggestion:
    """`data` is divided, `asked` what the user would type; `balance` is added to the command where classes are unequal."""
    trade = REHEARSALS[asked.task](asked, data)
    options = trade.options
    # Then files are decoded in the first epoch only; what detectors and segmenters read is cut anew each time.
    kept = asked.task == "classify" and (options.cache in ("memory", "disk") or not data["train"].encoded)
    words = {name: getattr(options, name) for name in OWN.get(asked.task, ())}
    words |= {} if asked.ignore_index is None else {"ignore_index": asked.ignore_index}
    words |= {} if balance is None else {"balance": balance}
    return forecast(trade, asked, size=options.image_size or (), validated=len(data["val"]), kept=kept, words=words)


def suggest_for_volumes(data: VolumeData, asked: TrainOptions) -> Suggestion:
    """The same of volumes, of which crops are learned from and whole ones validate, window by window."""
    options = settle_volumes(asked, data, None)
    trade = Segmenting3d(data, prepare_volume_segmenter(options, data, None), options)
    assert options.crop is not None
    windows = 0
    for case in data.splits["val"]:
        size = list(open_volume(case.image).size)
        if case.region is not None:
            size[case.region.axis] = case.region.end - case.region.begin
        windows += len(cut_windows(size, options.crop, overlap=min(options.overlap, COARSE)))
    return forecast(trade, asked, size=options.crop, validated=windows, kept=False, words={})


def forecast(
    trade: Trade, asked: TrainOptions, *, size: tuple[int, ...], validated: int, kept: bool, words: Mapping[str, Any]
) -> Suggestion:
    """How long a task would take with the options it chose. `validated`: pictures, or windows, that the model is asked about after an
    epoch; `kept`: whether they are read in the first epoch only; `words`: options that the command says more than `asked`."""
    options, alone = trade.options, World()
    trial = copy(trade)
    trial.options = change(options, workers=0, cache="off")
    loader = trial.make_loaders(alone)[0]
    few = next(iter(smaller(trial).make_loaders(alone)[0].batches()))
    begin = time.perf_counter()
    full = next(iter(loader.batches()))
    read_seconds = (time.perf_counter() - begin) / len(full.images)
    stepper = Stepper(trial.make_task(device=options.device, world=alone), trial.make_plan(device=options.device), alone)
    step_seconds = time_steps(stepper, few, full, rate=real(options.lr))
    batch, epochs = batch_of(options), whole(options.epochs)
    compute = step_seconds * (len(loader) + VALIDATION * validated / batch)
    reading = read_seconds * (len(loader) * batch + validated) / (os.cpu_count() or 1)
    total = epochs * compute + (1 if kept else epochs) * reading
    sides = size[:1] if len(set(size)) == 1 else size
    said = {
        "model": options.model, "crop" if len(size) == 3 else "image_size": sides, batch_name(options): batch, "recipe": options.recipe,
        "epochs": epochs, **words,
    }  # fmt: skip
    task = "" if options.task == "classify" else f" --task {options.task}"
    return Suggestion(
        model=options.model,
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
        command=f"vitrail train{task} --data {shlex.quote(asked.data)} {' '.join(map(spell, said.items()))}",
    )


def spell(option: tuple[str, Any]) -> str:
    """An option as the command line has it."""
    name, value = option
    return f"--{name.replace('_', '-')} {' '.join(map(str, value)) if isinstance(value, tuple) else value}"


def smaller(trade: Trade) -> Trade:
    """The same with batches of two, or of one."""
    found = copy(trade)
    found.options = change(trade.options, **{batch_name(trade.options): min(2, batch_of(trade.options))}, repeats=1)
    return found


def change(options: Any, **values: Any) -> Any:
    """With other values of those options that there are."""
    return replace(options, **{name: value for name, value in values.items() if hasattr(options, name)})


def batch_name(options: Any) -> str:
    """Until every task is ported."""
    return "batch_size" if hasattr(options, "batch_size") else "batch"


def batch_of(options: Any) -> int:
    return whole(getattr(options, batch_name(options)))


def with_few(data: DataSet) -> DataSet:
    """The data with some of its training pictures."""
    train = data["train"]
    some = Part(train, np.array(spread(len(train), MEASURED), dtype=np.int64))
    return replace(data, splits={**data.splits, "train": some})


def no_limit() -> BadFiles:
    return BadFiles(pictures=1, limit=float("inf"))


def time_steps(stepper: Stepper, few: Any, full: Any, *, rate: float) -> float:
    """The median of some steps with a full batch, after one with a small one, which pays for imports and buffers."""
    times = list[float]()
    stepper.task.model.train()
    while len(times) <= STEPS and sum(times[1:]) < SECONDS:
        begin = time.perf_counter()
        stepper.take(full if times else few, rate)  # its loss is read, which waits for an accelerator
        times.append(time.perf_counter() - begin)
    return float(np.median(times[1:]))
