"""Restoring pictures as a job: pictures, what is done to them, a model that undoes it, and options settled by all three."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitrail.data.bad_files import BAD_FILES, BadFiles, read_bad_files
from vitrail.data.dataset import DataSet, Part
from vitrail.data.degradation import Degradation, parse_degradation
from vitrail.data.examples import spread
from vitrail.data.patches_of_pictures import PairLoader, patch_loader, whole_loader
from vitrail.data.picture_store import PictureStore
from vitrail.jobs.classifying import note_bad
from vitrail.jobs.cleaning import list_bad, open_clean_unlabelled
from vitrail.jobs.facts import count_splits
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import describe_recipe, find_rate, make_plan, real, whole
from vitrail.jobs.restoration_scores import evaluate_restorer, finish
from vitrail.jobs.restoring_settling import (
    RECIPES,
    damage_of,
    load_trained,
    prepare_restorer,
    settle_restoring,
)
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.models.catalogue import count_parameters
from vitrail.models.restoration_card import describe_damage
from vitrail.tasks.restore import Restore

LOOKED_AT = 16  # pictures whose size is compared with a patch's
VALIDATED, SIDE = 64, 256  # pictures and their pixels a side, at most: validation comes every epoch


class Restoring:
    """Satisfies `jobs.trades.Trade`."""

    def __init__(self, data: DataSet, model: Any, options: TrainOptions, bad: BadFiles) -> None:
        self.data, self.model, self.options, self.bad = data, model, options, bad
        self.name = data.name

    @property
    def how(self) -> Degradation:
        return parse_degradation(str(self.options.degrade))

    @classmethod
    def prepare(cls, options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> "Restoring":
        """Pictures that can be read, a model for what is done to them, and options without `auto`."""
        how = damage_of(options)
        loaded = load_trained(options, how)
        known = None if begun is None else read_bad_files(begun / BAD_FILES)
        data, bad = open_clean_unlabelled(options.data, seed=options.seed, limit=options.bad_files, progress=bar, known=known)
        options = settle_restoring(options, data, how=how, loaded=loaded)
        torch.manual_seed(options.seed)
        return cls(data, prepare_restorer(options, how, loaded), options, bad)

    def find_rate(self, folder: Path, bar: ProgressBar) -> float:
        return find_rate(
            self.options,
            self.model,
            begin=RECIPES[self.options.recipe].lr,
            task=lambda trial: Restore(trial, self.how, device=self.options.device),
            batches=self.make_loaders(World())[0],
            folder=folder,
            bar=bar,
        )

    def describe(self, folder: Path, bar: ProgressBar) -> None:
        options, patch = self.options, whole(self.options.patch_size)
        bar.say(f"{self.data.name}: {count_splits(self.data.splits)} pictures; {options.degrade}: {self.kind}")
        for note in self.data.notes:
            bar.say(f"  {note}")
        name = options.model if options.weights is None else f"weights of {options.weights}"
        channels = "gray" if self.model.config.in_channels == 1 else "color"
        bar.say(
            f"{name}: {count_parameters(self.model):,} parameters, {channels}; patches of {patch}x{patch}, "
            f"{options.patches} of each picture an epoch"
        )
        smallest = min(min(self.data["train"].read(index).size) for index in spread(len(self.data["train"]), LOOKED_AT))
        if smallest < patch * self.how.scale:
            bar.say(
                f"  note: a picture of {smallest} pixels a side is smaller than a patch of {patch * self.how.scale}; mirrored, it fills one"
            )
        bar.say(describe_recipe(options))
        bar.say(f"writing to {folder}")

    @property
    def kind(self) -> str:
        return f"a model that {describe_damage(self.options.degrade)}"

    def keep(self, folder: Path, bar: ProgressBar) -> None:
        list_bad(self.bad, folder, bar)

    def make_plan(self, *, device: str) -> Plan:
        return make_plan(self.options, device=device)

    def make_task(self, *, device: str, world: World) -> Restore:
        return Restore(self.model, self.how, device=device, compiled=self.options.compile, world=world)

    def make_loaders(self, world: World) -> tuple[PairLoader, PairLoader]:
        """Patches to learn from, and the middles of some pictures to validate on; decoded pictures are kept for next time."""
        options, channels = self.options, self.model.config.in_channels
        budget = int(real(options.cache_gb) * 2**30) if options.cache == "memory" else 0
        some = Part(self.data["val"], np.array(spread(len(self.data["val"]), VALIDATED), dtype=np.int64))
        validation = PictureStore(some, channels=channels, budget=budget // 8)
        shared: dict[str, Any] = {
            "seed": options.seed, "workers": whole(options.workers), "rank": world.rank, "world": world.size,
        }  # fmt: skip
        training = patch_loader(
            PictureStore(self.data["train"], channels=channels, budget=budget - budget // 8),
            self.how,
            batch=whole(options.batch),
            patch=whole(options.patch_size),
            patches=whole(options.patches),
            turn=bool(options.flip),
            on_bad=partial(note_bad, self.bad, "train"),
            **shared,
        )
        return training, whole_loader(validation, self.how, most=SIDE, on_bad=partial(note_bad, self.bad, "val"), **shared)

    def finish(self, folder: Path, progress: Progress, bar: ProgressBar, world: World) -> tuple[dict[str, float], Any]:
        return finish(folder, self.data, self.options, progress, bar, self.bad, world)

    evaluate = staticmethod(evaluate_restorer)
