"""What the methods that compare views of a picture share: loaders, the labelled pictures they are watched by, parts of their report."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet, Part
from vitrail.data.examples import spread
from vitrail.data.loading import Loader
from vitrail.data.views import Look, ViewLoader, half_size, looks
from vitrail.jobs.classifying import make_caches, note_bad
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import real, whole
from vitrail.jobs.pretraining import NOT_OURS
from vitrail.learn.training.objective import Batches
from vitrail.learn.training.world import World
from vitrail.report.page import Markup
from vitrail.tasks.twins import Neighbors

KNOWN = 5000  # labelled pictures among which neighbors are sought, at most
EVERY = 5  # epochs between two such questions

# A view is changed in its own ways, and a teacher is an average already.
NOT_OF_VIEWS: Mapping[str, Any] = MappingProxyType(
    {
        **NOT_OURS, "shift": 0.0, "rotate": 0.0, "zoom": 0.0, "cutout": 0.0, "operations": 0, "magnitude": 9.0, "erase": 0.0,
        "ema": 0.0, "sam": 0.0,
    }
)  # fmt: skip


def choose_looks(model: Any, options: TrainOptions, *, small: int, area: float, least: float = 0.05) -> tuple[Look, ...]:
    """Those of two large views and `small` small ones of about half the side."""
    backbone = model.backbone
    half = half_size(backbone.image_size, backbone.size_multiple)
    return looks(backbone.image_size, half, small, mirror=bool(options.flip), area=area, least=least)


def view_loaders(
    wanted: tuple[Look, ...], model: Any, data: DataSet, options: TrainOptions, bad: BadFiles, world: World
) -> tuple[Batches, Batches]:
    """Views of the training pictures, and validation pictures as they are; decoded ones are kept for next time."""
    preprocessing, caches = model.preprocessing, make_caches(options, data, model.preprocessing)
    shared: dict[str, Any] = {
        "batch": whole(options.batch), "seed": options.seed, "workers": whole(options.workers), "rank": world.rank,
        "world": world.size,
    }  # fmt: skip
    train = ViewLoader(
        data["train"], preprocessing, wanted=wanted, cache=caches["train"], on_bad=partial(note_bad, bad, "train"), **shared
    )
    return train, Loader(data["val"], preprocessing, cache=caches["val"], on_bad=partial(note_bad, bad, "val"), **shared)


def watched_settings(
    looks: tuple[Look, ...], model: Any, data: DataSet, options: TrainOptions, *, device: str, world: World
) -> dict[str, Any]:
    """What the task of either method is told."""
    return {
        "look": looks[0], "momentum": real(options.momentum), "temperature": real(options.temperature), "seed": options.seed,
        "device": device, "compiled": options.compile, "world": world, "neighbors": find_neighbors(model, data, options, world),
    }  # fmt: skip


def find_neighbors(model: Any, data: DataSet, options: TrainOptions, world: World) -> Neighbors | None:
    """Some training pictures with their labels, where they have one each; never learned from, but to see what was learned."""
    every = EVERY if options.knn_every == "auto" else options.knn_every
    if not every or len(data.classes) < 2 or data.multi_label:
        return None
    train = data["train"]
    some = Part(train, np.array(spread(len(train), KNOWN)))
    batch = 64 if options.batch == "auto" else options.batch
    known = Loader(some, model.preprocessing, batch=batch, rank=world.rank, world=world.size, on_bad=lambda error: None)
    return Neighbors(known=known, classes=len(data.classes), every=every, steps=max(1, len(train) // batch))


def show_watch(rows: Sequence[Mapping[str, float | int]], metrics: Mapping[str, float]) -> Iterable[Markup]:
    from vitrail.report.watching import show_health  # it imports matplotlib

    yield show_health(rows, metrics)
