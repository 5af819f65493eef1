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
from vitrail.models.pretrained import find_packaged
from vitrail.models.reading.hub import without_network
from vitrail.run.plan import set_checkpointing
from vitrail.tasks import registry
from vitrail.tasks.options import as_size, has_option
from vitrail.tasks.stages import Opened, Opening, Resolved, Setup
from vitrail.tasks.weights import check_digest, describe_weights, find_digest, is_named, pin


def prepare(options: Any, bar: ProgressBar, *, resumed: Path | None) -> Setup[Any, Any, Any]:
    """Weights, data, options without `auto`, and then, from the seed, the model: nothing between the two draws a random number.
    `resumed`: the folder of a run that is continued, which has listed what it could not read."""
    task = registry.find(options.task)
    options = replace(options, device=choose_device(options.device))
    check_precision(options.precision, options.device)
    opening = Opening(
        source=options.data,
        seed=options.seed,
        progress=bar,
        known_bad=None if resumed is None else read_bad_files(resumed / BAD_FILES),
        known_copies=NO_COPIES if resumed is None else read_copies(resumed / COPIES),
        image_size=as_size(getattr(options, "image_size", None)),
    )
    with without_network(options.offline or resumed is not None):
        opened, named, lines = None, options.weights, list[str]()
        if (
            resumed is None
            and has_option(options, "pretrained")
            and (options.weights is None or find_packaged(options.weights))
        ):
            opened = task.open(options, opening)
            options = task.find_weights(options, opened, lines.append)
        options = pin_weights(options, resumed=resumed is not None)
        if resumed is None and is_named(named):  # of a choice it has been said
            lines.append(f"weights: {describe_weights(options.weights, None)}")
        loaded = None if options.weights is None else task.load(options, bar.say)
        resolved = resolve(options, opened or task.open(options, opening), loaded, resumed)  # a teacher may be of the hub too
        torch.manual_seed(resolved.options.seed)
        model = task.build(resolved, loaded)
    registry.name_task(model, options.task)
    if options.checkpointing:
        set_checkpointing(model)
    return Setup(
        options=resolved.options,
        data=resolved.data,
        extras=resolved.extras,
        bad=resolved.bad,
        model=model,
        log=bar.say,
        begins="".join(lines),
    )


def resolve(options: Any, opened: Opened[Any], loaded: Any, resumed: Path | None) -> Resolved[Any, Any, Any]:
    """As the task does; float32 where it has no wish of its own."""
    resolved = registry.find(options.task).resolve(options, opened, loaded, resumed)
    if resolved.options.precision == "auto":
        resolved = replace(resolved, options=replace(resolved.options, precision="fp32"))
    return resolved


def pin_weights(options: Any, *, resumed: bool) -> Any:
    """Weights of the hub by their commit, and the SHA-256 of what was received: what config.yaml says, and a resumed run compares."""
    if not is_named(options.weights):
        if options.weights is not None and options.weights_sha256 is not None:
            check_digest(str(options.weights), options.weights_sha256)
        return options
    source = pin(options.weights)
    if options.weights_sha256 is not None:
        check_digest(source, options.weights_sha256)
    elif not resumed:
        options = replace(options, weights_sha256=find_digest(source))
    return replace(options, weights=source)
