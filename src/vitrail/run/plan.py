"""From resolved options to what the training loop needs, and the learning rate by trial: the same for every task."""

import copy
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from vitrail.data.bad_files import BadFiles
from vitrail.errors import VitrailError
from vitrail.files import write_whole
from vitrail.learn.optim.range_test import run_range_test
from vitrail.learn.training.objective import Batches
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.step import Stepper
from vitrail.learn.training.world import World
from vitrail.models.model import Model
from vitrail.models.protocols import Checkpointed
from vitrail.tasks.options import has_option
from vitrail.tasks.stages import Setup
from vitrail.tasks.task import Task

OPTIONAL = ("layer_decay", "ema", "sam")  # fields of a plan whose options not every task has


def make_plan(task: Task[Any, Any, Any, Any], setup: Setup[Any, Any, Any], *, device: str) -> Plan:
    options = setup.options
    fields = {
        "epochs": options.epochs, "minutes": options.minutes, "lr": options.lr, "weight_decay": options.weight_decay,
        "warmup": options.warmup, "schedule": options.schedule, "clip": options.clip_grad, "optimizer": options.optimizer,
        "accumulate": options.accumulate, "patience": options.patience, "finish": options.finish, "seed": options.seed, "device": device, "precision": options.precision,
    }  # fmt: skip
    fields |= {name: getattr(options, name) for name in OPTIONAL if has_option(options, name)}
    for name, value in fields.items():
        assert value != "auto", name
    return Plan(**{**fields, **task.plan(setup)})


def find_rate(task: Task[Any, Any, Any, Any], setup: Setup[Any, Any, Any], folder: Path, bar: ProgressBar) -> float:
    """A range test on the training data around the recipe's learning rate, with a figure of it; model and generators are as before
    afterwards."""
    from vitrail.rendering import to_png
    from vitrail.report.figures import draw_range_test

    bar.say("looking for a learning rate: a hundred steps, each a little faster than the one before")
    device = setup.options.device
    trial = copy.deepcopy(setup.model).to(device)
    state = torch.get_rng_state()
    unlimited = None if setup.bad is None else BadFiles(images=1, limit=1.0)
    off = {name: 0.0 for name in ("ema", "sam") if has_option(setup.options, name)}
    tried = replace(setup, options=replace(setup.options, lr=task.rate_before_test(setup), **off), model=trial, bad=unlimited)
    objective = task.objective(replace(setup, model=trial), device=device, world=World())
    stepper = Stepper(objective, make_plan(task, tried, device=device), World())
    endless = forever(task.loaders(replace(setup, bad=unlimited), World())[0])
    trial.train()
    result = run_range_test(lambda rate: stepper.take(next(endless), rate).loss)
    torch.set_rng_state(state)
    write_whole(folder / "lr_range.png", to_png(draw_range_test(result)))
    bar.say(f"learning rate {result.chosen:.2g}: see {folder / 'lr_range.png'}")
    return float(f"{result.chosen:.2g}")


def forever(batches: Batches) -> Iterator[Any]:
    for epoch in itertools.count():
        yield from batches.batches(epoch)


def set_checkpointing(model: Model) -> None:
    """All blocks of a model, wherever they are in it, store only their inputs."""
    blocks = [block for block in model.modules() if isinstance(block, Checkpointed)]
    if not blocks:
        raise VitrailError(f"--checkpointing: a model of the kind {model.architecture} has no blocks to compute twice")
    for block in blocks:
        block.checkpointing = True
