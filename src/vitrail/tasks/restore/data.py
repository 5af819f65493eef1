"""Patches of images to learn from, and whole images to score, each with its damage."""

from functools import partial
from typing import Any

import numpy as np

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet, Part, Split
from vitrail.data.degradation import Degradation, parse_degradation
from vitrail.data.examples import spread
from vitrail.data.patches_of_pictures import PairLoader, patch_loader, whole_loader
from vitrail.data.picture_store import PictureStore
from vitrail.learn.training.world import World
from vitrail.tasks.image_task import note_bad
from vitrail.tasks.restore.options import Options

VALIDATED, SIDE = 64, 256  # images and their pixels a side, at most: validation comes every epoch


def damage_of(options: Options) -> Degradation:
    """What to undo."""
    assert options.degrade is not None
    return parse_degradation(options.degrade)


def restoring_loaders(
    options: Options, data: DataSet, channels: int, bad: BadFiles, world: World
) -> tuple[PairLoader, PairLoader]:
    """Patches to learn from, and the middles of some images to validate on; decoded images are stored for next time."""
    assert options.batch_size != "auto"
    assert options.patch_size != "auto"
    assert options.patches != "auto"
    assert options.cache_gb != "auto"
    assert options.workers != "auto"
    how, budget = damage_of(options), int(options.cache_gb * 2**30) if options.cache == "memory" else 0
    some = Part(data["val"], np.array(spread(len(data["val"]), VALIDATED), dtype=np.int64))
    validation = PictureStore(some, channels=channels, budget=budget // 8)
    common: dict[str, Any] = {
        "seed": options.seed, "workers": options.workers, "rank": world.rank, "world": world.size,
    }  # fmt: skip
    training = patch_loader(
        PictureStore(data["train"], channels=channels, budget=budget - budget // 8),
        how,
        batch=options.batch_size,
        patch=options.patch_size,
        patches=options.patches,
        turn=bool(options.flip),
        on_bad=partial(note_bad, bad, "train"),
        **common,
    )
    return training, whole_loader(validation, how, most=SIDE, on_bad=partial(note_bad, bad, "val"), **common)


def scored_loader(
    images: Split, how: Degradation, *, channels: int, seed: int, workers: int, bad: BadFiles, split: str, world: World
) -> PairLoader:
    """Every image of a split, whole, with the same damage each time."""
    return whole_loader(
        PictureStore(images, channels=channels, budget=0),
        how,
        seed=seed,
        workers=workers,
        on_bad=partial(note_bad, bad, split),
        rank=world.rank,
        world=world.size,
    )
