"""From settled options to what the training loop is told, and the learning rate by trial: the same for every task."""

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from vitrail.errors import VitrailError
from vitrail.files import write_whole
from vitrail.jobs.options import TrainOptions
from vitrail.learn.optim.range_test import run_range_test
from vitrail.learn.training.objective import Batches, Objective
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.step import Stepper
from vitrail.learn.training.world import World


def make_plan(
    options: TrainOptions, *, device: str, progressive: float = 1.0, multiple: int = 1, decay_growth: float = 1.0
) -> Plan:
    """`progressive` and `multiple` are about pictures (see `learn.training.resolution`); the pull on the weights ends `decay_growth` times
    as strong as it begins."""
    assert options.optimizer != "auto"
    assert options.schedule != "auto"
    return Plan(
        epochs=whole(options.epochs),
        minutes=options.minutes,
        lr=real(options.lr),
        weight_decay=real(options.weight_decay),
        final_weight_decay=None if decay_growth == 1.0 else decay_growth * real(options.weight_decay),
        warmup=real(options.warmup),
        schedule=options.schedule,
        clip=real(options.clip),
        optimizer=options.optimizer,
        layer_decay=real(options.layer_decay),
        accumulate=options.accumulate,
        sam=real(options.sam),
        ema=real(options.ema),
        progressive=progressive,
        multiple=multiple,
        seed=options.seed,
        device=device,
        precision=options.precision,
    )


def find_rate(
    options: TrainOptions,
    model: Any,
    *,
    begin: float,
    task: Callable[[Any], Objective],
    batches: Batches,
    folder: Path,
    bar: ProgressBar,
    plan: Callable[[TrainOptions], Plan] | None = None,
) -> float:
    """A range test on the training data around the rate `begin`, with a picture of it; model and generators are as before
    afterwards. `task` makes the task of a copy of the model; `plan`: `make_plan`, unless the model has a say in it."""
    from vitrail.rendering import to_png
    from vitrail.report.range_test import draw_range_test

    bar.say("looking for a learning rate: a hundred steps, each a little faster than the one before")
    trial = copy.deepcopy(model).to(options.device)
    state = torch.get_rng_state()
    tried = replace(options, lr=begin, ema=0.0, sam=0.0)
    stepper = Stepper(task(trial), make_plan(tried, device=tried.device) if plan is None else plan(tried), World())
    endless = forever(batches)
    trial.train()
    result = run_range_test(lambda rate: stepper.take(next(endless), rate).loss)
    torch.set_rng_state(state)
    write_whole(folder / "lr_range.png", to_png(draw_range_test(result)))
    bar.say(f"learning rate {result.chosen:.2g}: see {folder / 'lr_range.png'}")
    return float(f"{result.chosen:.2g}")


def set_checkpointing(model: Any) -> None:
    """All blocks of a model, wherever they are in it, keep only what goes into them."""
    parts = [part for part in model.modules() if hasattr(part, "checkpointing")]
    if not parts:
        raise VitrailError(f"--checkpointing: a model of the kind {model.architecture} has no blocks to compute twice")
    for part in parts:
        part.checkpointing = True


def forever(batches: Batches) -> Iterator[Any]:
    for epoch in itertools.count():
        yield from batches.batches(epoch)


def describe_length(options: TrainOptions) -> str:
    return f"{options.epochs} epochs" if options.minutes is None else f"{options.minutes:g} minutes"


def whole(value: int | str) -> int:
    assert isinstance(value, int), value
    return value


def real(value: float | str | None) -> float:
    assert isinstance(value, int | float), value
    return value


def describe_recipe(options: TrainOptions) -> str:
    """How a model of pictures will learn, in a line."""
    return f"recipe {options.recipe}: {describe_length(options)}, batch {options.batch}, lr {real(options.lr):g} on {options.device}"
