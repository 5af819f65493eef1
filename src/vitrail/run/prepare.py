"""From checked options to everything that a run is: the same for a new run, a resumed one and the other processes of torchrun."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from vitrail.data.bad_files import BAD_FILES, read_bad_files
from vitrail.data.copies import COPIES, read_copies
from vitrail.data.dataset import NO_COPIES
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.machine import check_precision, choose_device
from vitrail.run.plan import set_checkpointing
from vitrail.tasks import registry
from vitrail.tasks.options import as_size
from vitrail.tasks.stages import Opening, Setup


def prepare(options: Any, bar: ProgressBar, *, resumed: Path | None) -> Setup[Any, Any, Any]:
    """Weights, data, options without `auto`, and then, from the seed, the model: nothing between the two draws a random number.
    `resumed`: the folder of a run that is continued, which has listed what it could not read."""
    task = registry.find(options.task)
    options = replace(options, device=choose_device(options.device))
    check_precision(options.precision, options.device)
    loaded = None if options.weights is None else task.load(options, bar.say)
    opening = Opening(
        source=options.data,
        seed=options.seed,
        progress=bar,
        known_bad=None if resumed is None else read_bad_files(resumed / BAD_FILES),
        known_copies=NO_COPIES if resumed is None else read_copies(resumed / COPIES),
        image_size=as_size(getattr(options, "image_size", None)),
    )
    resolved = task.resolve(options, task.open(options, opening), loaded, resumed)
    if resolved.options.precision == "auto":  # a task without a wish of its own
        resolved = replace(resolved, options=replace(resolved.options, precision="fp32"))
    torch.manual_seed(resolved.options.seed)
    model = task.build(resolved, loaded)
    registry.name_task(model, options.task)
    if options.checkpointing:
        set_checkpointing(model)
    return Setup(
        options=resolved.options, data=resolved.data, extras=resolved.extras, bad=resolved.bad, model=model, log=bar.say
    )
