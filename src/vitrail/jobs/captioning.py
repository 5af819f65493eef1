"""Captions as a job: pictures with what people said of them, a tokenizer and a model for them, and options settled by both."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitrail.data.bad_files import BAD_FILES, BadFiles, read_bad_files
from vitrail.data.caption_batches import CaptionBatches
from vitrail.data.captions import CaptionData
from vitrail.data.examples import spread
from vitrail.data.transforms import measure, read_fitted
from vitrail.jobs.caption_cleaning import open_clean_captions
from vitrail.jobs.caption_scores import evaluate_captions, finish
from vitrail.jobs.caption_settling import CAPTION_RECIPES, settle_captions
from vitrail.jobs.classifying import picture_loaders
from vitrail.jobs.cleaning import list_bad
from vitrail.jobs.facts import count_splits
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import describe_recipe, find_rate, make_plan, real, set_checkpointing, whole
from vitrail.jobs.settling import PARTS, size_of
from vitrail.jobs.text_settling import keep_tokenizer, load_trained, make_tokenizer
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.models.catalogue import count_parameters, create_model, model_config, rebuild
from vitrail.tasks.caption import Caption


class Captioning:
    """Satisfies `jobs.trades.Trade`."""

    def __init__(self, data: CaptionData, model: Any, options: TrainOptions, bad: BadFiles) -> None:
        self.data, self.model, self.options, self.bad = data, model, options, bad
        self.name = data.name

    @classmethod
    def prepare(cls, options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> "Captioning":
        """Pictures that can be read, byte pairs learned from the captions of train, and a model for both."""
        loaded = load_trained(options, purposes=("caption",))
        known = None if begun is None else read_bad_files(begun / BAD_FILES)
        data, bad = open_clean_captions(
            options.data, seed=options.seed, image_size=size_of(options), limit=options.bad_files, progress=bar, known=known
        )
        options = settle_captions(options, data, loaded=loaded)
        lines = (text for texts in data["train"].captions for text in texts)
        tokenizer = make_tokenizer(lines, options, loaded=loaded, begun=begun)
        torch.manual_seed(options.seed)
        return cls(data, prepare_captioner(options, data, tokenizer, loaded), options, bad)

    def find_rate(self, folder: Path, bar: ProgressBar) -> float:
        return find_rate(
            self.options,
            self.model,
            begin=CAPTION_RECIPES[self.options.recipe].lr,
            task=lambda trial: make_task(self.options, self.data, trial, self.options.device, World()),
            batches=self.make_loaders(World())[0],
            folder=folder,
            bar=bar,
        )

    def describe(self, folder: Path, bar: ProgressBar) -> None:
        options, model = self.options, self.model
        counts = count_splits(self.data.splits)
        said = sum(map(len, self.data["train"].captions)) / len(self.data["train"])
        bar.say(f"{self.data.name}: pictures with captions ({said:.3g} a picture): {counts}")
        for note in (*self.data.notes, str(self.data.skipped)):
            if note:
                bar.say(f"  {note}")
        height, width = model.image_size
        name = options.model if options.weights is None else f"weights of {options.weights}"
        bar.say(
            f"{name}: {count_parameters(model):,} parameters, pictures {height}x{width}x{model.config.in_channels}, "
            f"a vocabulary of {len(model.tokenizer):,}{', lower case' if model.tokenizer.lower else ''}"
        )
        bar.say(describe_recipe(options))
        bar.say(f"writing to {folder}")

    def keep(self, folder: Path, bar: ProgressBar) -> None:
        list_bad(self.bad, folder, bar)
        keep_tokenizer(self.model.tokenizer, folder)

    def make_plan(self, *, device: str) -> Plan:
        return make_plan(self.options, device=device)

    def make_task(self, *, device: str, world: World) -> Caption:
        return make_task(self.options, self.data, self.model, device, world)

    def make_loaders(self, world: World) -> tuple[CaptionBatches, CaptionBatches]:
        """Training pictures, shuffled, with a caption drawn for each; validation pictures with their first."""
        tokenizer, longest, seed = self.model.tokenizer, self.model.config.longest, self.options.seed
        pictures = picture_loaders(self.options, self.data, self.model.preprocessing, self.bad, world)
        training, validation = (
            CaptionBatches(loader, self.data[name].captions, tokenizer, longest=longest, seed=seed)
            for name, loader in zip(("train", "val"), pictures, strict=True)
        )
        return training, validation

    def finish(self, folder: Path, progress: Progress, bar: ProgressBar, world: World) -> tuple[dict[str, float], Any]:
        return finish(folder, self.data, self.options, progress, bar, self.bad, world)

    evaluate = staticmethod(evaluate_captions)


def prepare_captioner(options: TrainOptions, data: CaptionData, tokenizer: Any, loaded: Any) -> Any:
    """A new model for the tokenizer's vocabulary with preprocessing measured on the training pictures, or the loaded one."""
    if loaded is not None:
        model = rebuild(loaded, dropout=real(options.dropout))
    else:
        assert options.image_size is not None
        config = model_config(options.model)[1]
        parts = {name: getattr(options, name) for name in PARTS if hasattr(config, "position")}
        model = create_model(
            options.model,
            vocabulary=len(tokenizer),
            image_size=options.image_size,
            in_channels=options.in_channels,
            dropout=real(options.dropout),
            longest=whole(options.longest),
            **parts,
        )
        plain, some = model.preprocessing, spread(len(data["train"]), 1000)
        mean, std = measure(np.stack([read_fitted(data["train"], index, plain) for index in some]))
        model.preprocessing = replace(plain, mean=mean, std=std)
    model.tokenizer = tokenizer
    if options.checkpointing:
        set_checkpointing(model)
    return model.to(options.device)


def make_task(options: TrainOptions, data: CaptionData, model: Any, device: str, world: World) -> Caption:
    return Caption(
        model,
        model.tokenizer,
        references=data["val"].captions,
        decided=data.decided,
        smoothing=real(options.smoothing),
        device=device,
        compiled=options.compile,
        world=world,
    )
