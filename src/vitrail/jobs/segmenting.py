"""Segmentation as a job: pictures with masks, a model for them, and options settled by both."""

from functools import partial
from pathlib import Path
from typing import Any

import torch

from vitrail.data.bad_files import BadFiles
from vitrail.data.box_data import list_problems
from vitrail.data.dataset import DataSet
from vitrail.data.dense_batches import DenseLoader, crop_loader, whole_loader
from vitrail.data.joint import Movement
from vitrail.data.masked import is_mask_folder
from vitrail.jobs.classifying import note_bad
from vitrail.jobs.cleaning import list_bad, opening_words
from vitrail.jobs.facts import count_splits
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import describe_recipe, find_rate, make_plan, real, whole
from vitrail.jobs.segmentation_scores import evaluate_segmenter, finish
from vitrail.jobs.segmenting_settling import (
    RECIPES,
    Counts,
    counts_of,
    load_encoder,
    open_masked,
    pixel_weights,
    prepare_segmenter,
    settle_segmenting,
)
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.models.catalogue import count_parameters
from vitrail.tasks.segment import Segment


class Segmenting:
    """Satisfies `jobs.trades.Trade`."""

    def __init__(self, data: DataSet, model: Any, options: TrainOptions, bad: BadFiles, *, counts: Counts) -> None:
        self.data, self.model, self.options, self.bad = data, model, options, bad
        self.name = data.name
        self.weights = pixel_weights(options, counts)

    @classmethod
    def prepare(cls, options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> "Segmenting":
        """Pictures whose masks can be learned from, a model for them, and options without `auto`."""
        loaded = load_encoder(options)
        opening = opening_words(options, bar, begun=begun)
        data, bad = open_masked(options.data, ignore=options.ignore_index, **opening)
        counts = counts_of(data)
        options = settle_segmenting(options, data, counts=counts, loaded=loaded)
        torch.manual_seed(options.seed)
        return cls(data, prepare_segmenter(options, data, loaded), options, bad, counts=counts)

    def find_rate(self, folder: Path, bar: ProgressBar) -> float:
        return find_rate(
            self.options,
            self.model,
            begin=RECIPES[self.options.recipe].lr,
            task=lambda trial: self.task_of(trial, device=self.options.device),
            batches=self.make_loaders(World())[0],
            folder=folder,
            bar=bar,
        )

    def describe(self, folder: Path, bar: ProgressBar) -> None:
        options = self.options
        bar.say(f"{self.data.name}: {len(self.data.classes)} classes, {count_splits(self.data.splits)} pictures with masks")
        for note in self.data.notes:
            bar.say(f"  {note}")
        if (problems := list_problems(self.data)) and not is_mask_folder(self.data):  # whose are in the list of bad files
            bar.say(f"  {len(problems):,} outlines were mended or left out: vitrail check names them; the first: {problems[0]}")
        name = options.model if options.weights is None else f"weights of {options.weights}"
        height, width = self.model.image_size
        bar.say(
            f"{name}: {count_parameters(self.model):,} parameters, head {options.head}, "
            f"crops of {height}x{width}x{self.model.config.in_channels}"
        )
        bar.say(describe_recipe(options))
        bar.say(f"writing to {folder}")

    def keep(self, folder: Path, bar: ProgressBar) -> None:
        list_bad(self.bad, folder, bar)

    def make_plan(self, *, device: str) -> Plan:
        return make_plan(self.options, device=device)

    def make_task(self, *, device: str, world: World) -> Segment:
        return self.task_of(self.model, device=device, compiled=self.options.compile, world=world)

    def task_of(self, model: Any, **where: Any) -> Segment:
        assert self.options.loss != "auto"
        return Segment(model, kind=self.options.loss, weights=self.weights, smoothing=real(self.options.smoothing), **where)

    def make_loaders(self, world: World) -> tuple[DenseLoader, DenseLoader]:
        """Crops to learn from, and whole pictures to validate on."""
        options, shared = self.options, dict[str, Any]()
        shared |= {
            "classes": len(self.data.classes),
            "workers": whole(options.workers),
            "rank": world.rank,
            "world": world.size,
        }
        training = crop_loader(
            self.data["train"],
            self.model.preprocessing,
            batch=whole(options.batch),
            how=Movement(flip=bool(options.flip), rotate=real(options.rotate), color=real(options.jitter)),
            zoom=real(options.zoom),
            seed=options.seed,
            on_bad=partial(note_bad, self.bad, "train"),
            **shared,
        )
        return training, whole_loader(
            self.data["val"], self.model.preprocessing, on_bad=partial(note_bad, self.bad, "val"), **shared
        )

    def finish(self, folder: Path, progress: Progress, bar: ProgressBar, world: World) -> tuple[dict[str, float], Any]:
        return finish(folder, self.data, self.options, progress, bar, self.bad, world)

    evaluate = staticmethod(evaluate_segmenter)
