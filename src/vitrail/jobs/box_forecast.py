"""What `auto` would choose for data with boxes, and how long that training would take here: measured, not guessed."""

import os
import shlex
import time
from dataclasses import replace

import numpy as np

from vitrail.data.box_batches import BoxLoader, BoxPictures
from vitrail.data.dataset import DataSet, Part
from vitrail.data.examples import spread
from vitrail.data.joint import Movement
from vitrail.data.picture_store import PictureStore
from vitrail.jobs.detecting_settling import movement_of, prepare_detector, settle_detecting
from vitrail.jobs.forecast import VALIDATION, Suggestion, time_steps
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import make_plan, real, whole
from vitrail.learn.training.step import Stepper
from vitrail.learn.training.world import World
from vitrail.models.catalogue import count_parameters
from vitrail.tasks.detect import Detect


def suggest_detector(data: DataSet, source: str, *, seed: int) -> Suggestion:
    """`data` is divided, `source` what the user would type."""
    options = settle_detecting(TrainOptions(data=source, task="detect", seed=seed), data)
    train, batch = data["train"], whole(options.batch)
    some = Part(train, np.array(spread(len(train), max(32, batch)), dtype=np.int64))
    model = prepare_detector(options, replace(data, splits={**data.splits, "train": some}), None)
    pictures = BoxPictures(
        PictureStore(some, channels=model.config.in_channels, budget=0),
        model.preprocessing,
        how=Movement(**movement_of(options)),
        window=real(options.least_window),
    )
    begin = time.perf_counter()
    few, full = (next(iter(BoxLoader(pictures, batch=size).batches())) for size in (2, batch))
    read_seconds = (time.perf_counter() - begin) / (len(few.images) + len(full.images))
    stepper = Stepper(Detect(model, device=options.device), make_plan(options, device=options.device), World())
    step_seconds = time_steps(stepper, few, full, rate=real(options.lr))
    epochs = whole(options.epochs)
    compute = step_seconds * (max(1, len(train) // batch) + VALIDATION * len(data["val"]) / batch)
    total = epochs * (compute + read_seconds * (len(train) + len(data["val"])) / (os.cpu_count() or 1))
    assert options.image_size is not None
    height, width = options.image_size[0], options.image_size[-1]
    words = (
        f"--model {options.model} --image-size {height} {width} --queries {options.queries} --batch {batch} --epochs {epochs}"
    )
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
        command=f"vitrail train --task detect --data {shlex.quote(source)} {words}",
    )
