"""Finding objects as a job: pictures with boxes, a detector for their classes, and options settled by both."""

from functools import partial
from pathlib import Path
from typing import Any

import torch

from vitrail.data.bad_files import BadFiles
from vitrail.data.box_batches import BoxLoader, BoxPictures
from vitrail.data.box_data import count_objects, list_problems
from vitrail.data.dataset import DataSet, SplitName
from vitrail.data.joint import Movement
from vitrail.data.picture_store import PictureStore
from vitrail.jobs.classifying import note_bad
from vitrail.jobs.cleaning import list_bad, open_clean_boxes, opening_words
from vitrail.jobs.detecting_settling import (
    RECIPES,
    budget_of,
    load_trained,
    movement_of,
    prepare_detector,
    settle_detecting,
)
from vitrail.jobs.detection_scores import evaluate_detector, finish
from vitrail.jobs.facts import count_splits
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import describe_recipe, find_rate, make_plan, real, whole
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.models.catalogue import count_parameters
from vitrail.tasks.detect import Detect


class Detecting:
    """Satisfies `jobs.trades.Trade`."""

    def __init__(self, data: DataSet, model: Any, options: TrainOptions, bad: BadFiles) -> None:
        self.data, self.model, self.options, self.bad = data, model, options, bad
        self.name = data.name

    @classmethod
    def prepare(cls, options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> "Detecting":
        """Pictures that can be read, a detector for what is marked in them, and options without `auto`."""
        loaded = load_trained(options, bar)
        data, bad = open_clean_boxes(options.data, **opening_words(options, bar, begun=begun))
        options = settle_detecting(options, data, loaded=loaded)
        torch.manual_seed(options.seed)
        return cls(data, prepare_detector(options, data, loaded), options, bad)

    def find_rate(self, folder: Path, bar: ProgressBar) -> float:
        return find_rate(
            self.options,
            self.model,
            begin=RECIPES[self.options.recipe].lr,
            task=lambda trial: Detect(trial, device=self.options.device),
            batches=self.make_loaders(World())[0],
            folder=folder,
            bar=bar,
        )

    def describe(self, folder: Path, bar: ProgressBar) -> None:
        options, model, counts = self.options, self.model, count_objects(self.data["train"])
        bar.say(
            f"{self.data.name}: {len(self.data.classes)} classes, {count_splits(self.data.splits)} pictures with {counts.mean():.3g} objects "
            f"each in train, {counts.max()} at most"
        )
        for note in self.data.notes:
            bar.say(f"  {note}")
        if problems := list_problems(self.data):
            bar.say(f"  {len(problems):,} boxes were mended or left out: vitrail check names them; the first: {problems[0]}")
        if fuller := int((counts > whole(options.queries)).sum()):
            bar.say(f"  note: {fuller:,} training pictures have more objects than the model has queries ({options.queries})")
        height, width = model.image_size
        name = options.model if options.weights is None else f"weights of {options.weights}"
        bar.say(
            f"{name}: {count_parameters(model):,} parameters, pictures {height}x{width}x{model.config.in_channels}, "
            f"{model.config.queries} queries"
        )
        bar.say(describe_recipe(options))
        bar.say(f"writing to {folder}")

    def keep(self, folder: Path, bar: ProgressBar) -> None:
        list_bad(self.bad, folder, bar)

    def make_plan(self, *, device: str) -> Plan:
        return make_plan(self.options, device=device)

    def make_task(self, *, device: str, world: World) -> Detect:
        return Detect(self.model, device=device, compiled=self.options.compile, world=world)

    def make_loaders(self, world: World) -> tuple[BoxLoader, BoxLoader]:
        """Training pictures, cut and moved about, and validation pictures as they are; decoded ones are kept for next time."""
        options, model, budget = self.options, self.model, budget_of(self.options)
        shared: dict[str, Any] = {
            "batch": whole(options.batch), "workers": whole(options.workers), "rank": world.rank, "world": world.size,
        }  # fmt: skip
        rooms: dict[SplitName, int] = {"train": budget - budget // 8, "val": budget // 8}
        stores = {
            name: PictureStore(self.data[name], channels=model.config.in_channels, budget=room) for name, room in rooms.items()
        }
        training = BoxPictures(
            stores["train"],
            model.preprocessing,
            how=Movement(**movement_of(options)),
            window=real(options.least_window),
            seed=options.seed,
        )
        validation = BoxPictures(stores["val"], model.preprocessing, seed=options.seed)
        return (
            BoxLoader(training, shuffle=True, on_bad=partial(note_bad, self.bad, "train"), **shared),
            BoxLoader(validation, on_bad=partial(note_bad, self.bad, "val"), **shared),
        )

    def finish(self, folder: Path, progress: Progress, bar: ProgressBar, world: World) -> tuple[dict[str, float], Any]:
        return finish(folder, self.data, self.options, progress, bar, self.bad, world)

    evaluate = staticmethod(evaluate_detector)
