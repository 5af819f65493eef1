"""The report of a BEiT: how well masked codes are named, and what patches attend to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from vitrail.data.dataset import DataSet
from vitrail.learn.training.state import Row
from vitrail.learn.training.world import World
from vitrail.models.beit import BEiT
from vitrail.report.codes import show_named, show_references
from vitrail.report.page import Section
from vitrail.tasks.beit.task import TASK
from vitrail.tasks.pretraining import feature_commands, some_images
from vitrail.tasks.stages import Scored, Setup


def sections(scored: Scored[DataSet], setup: Setup[Any, DataSet, Any], rows: Sequence[Row]) -> Iterable[Section]:
    yield from show_masked(replace(setup, model=scored.model))


def commands(run: str, model: BEiT) -> Mapping[str, str]:
    return feature_commands(run)


def show_masked(setup: Setup[Any, DataSet, Any]) -> Iterator[Section]:
    """Validation images as the tokenizer draws them, from the true codes and from those that the model names."""
    model, device = setup.model, next(setup.model.parameters()).device
    some = some_images(setup.data["val"], model.preprocessing)
    if some is None:
        return
    objective = TASK.objective(setup, device=str(device), world=World())
    some = some._replace(images=some.images.to(device))
    masked = objective.hide_same(some)
    with torch.inference_mode():
        true = objective.codes(some.images)
        predicted = true.clone()
        predicted[masked] = model(some.images, masked).argmax(1)
        grid = objective.tokenizer.grid(tuple(some.images.shape[2:]))
        drawn = [objective.tokenizer.decode(codes, grid=grid).cpu() for codes in (true, predicted)]
    yield show_named(
        some.images.cpu(),
        masked.cpu().view(-1, *grid),
        *drawn,
        right=(predicted == true).cpu().view(-1, *grid),
        given=model.preprocessing,
        tokenizer=objective.tokenizer.preprocessing,
    )
    yield show_references(model.backbone, some.images[:4])
