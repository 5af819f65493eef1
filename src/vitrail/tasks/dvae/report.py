"""The report of a discrete VAE: how its codes are used, and images drawn from their codes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet
from vitrail.learn.training.state import Row
from vitrail.learn.training.world import World
from vitrail.models.dvae import DiscreteVAE
from vitrail.report.codes import show_drawn, show_usage
from vitrail.report.page import Section
from vitrail.tasks.dvae.objective import Coding
from vitrail.tasks.image_task import plain_loader
from vitrail.tasks.pretraining import some_images
from vitrail.tasks.stages import Scored, Setup


def sections(scored: Scored[DataSet], setup: Setup[Any, DataSet, Any], rows: Sequence[Row]) -> Iterable[Section]:
    yield from show_codes(replace(setup, model=scored.model))


def commands(run: str, model: DiscreteVAE) -> Mapping[str, str]:
    return {
        "Learn to predict its codes": f"vitrail pretrain --method beit --data DIR --tokenizer {run}",
        "Score it again": f"vitrail eval {run}",
    }


def show_codes(setup: Setup[Any, DataSet, Any]) -> Iterator[Section]:
    """Of validation images."""
    model, device = setup.model, next(setup.model.parameters()).device
    unlimited = BadFiles(images=1, limit=1.0)
    batches = plain_loader(replace(setup, options=replace(setup.options, workers=0), bad=unlimited), "val", World()).batches()
    yield show_usage(Coding(model, device=str(device)).evaluate(batches).usage)
    some = some_images(setup.data["val"], model.preprocessing)
    if some is not None:
        yield show_drawn(some.images, model.decode(model.codes(some.images.to(device))).cpu(), model.preprocessing)
