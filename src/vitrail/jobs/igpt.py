"""Learning from pixels alone as a job: pictures, a palette of their colors, and an image GPT over it."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitrail.data.bad_files import BAD_FILES, BadFile, BadFiles, read_bad_files
from vitrail.data.dataset import DataSet, Part, Split
from vitrail.data.examples import read_some, spread
from vitrail.data.images import PictureError
from vitrail.data.loading import Loader, choose_workers
from vitrail.errors import VitrailError
from vitrail.explain.probe import Labelled, Probe, layer_features, probe_layers
from vitrail.files import write_whole
from vitrail.jobs.classifying import make_loaders
from vitrail.jobs.cleaning import describe_bad, list_bad, open_clean
from vitrail.jobs.completing import complete_pictures
from vitrail.jobs.evaluate import REPORT, headline
from vitrail.jobs.facts import count_splits, end_run, later_commands, model_fact, training_fact
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.pixel_settling import RECIPES, check_ours, load_trained, prepare_model, settle_pixels
from vitrail.jobs.planning import describe_recipe, find_rate, make_plan, whole
from vitrail.jobs.scored_data import open_scored
from vitrail.jobs.settling import size_of
from vitrail.jobs.stored import to_store
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load
from vitrail.models.igpt import ImageGPT
from vitrail.tasks.igpt import PixelModeling

PROBED = 5000  # pictures of each split that a probe reads
SHOWN, SAMPLES = 8, 6  # completions in the report


class Pretraining:
    """Satisfies `jobs.trades.Trade`."""

    def __init__(self, data: DataSet, model: ImageGPT, options: TrainOptions, bad: BadFiles, palette_error: float) -> None:
        self.data, self.model, self.options, self.bad, self.palette_error = data, model, options, bad, palette_error
        self.name = data.name

    @classmethod
    def prepare(cls, options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> "Pretraining":
        """Data without its bad files, a palette of its training pictures, a model for it, and options without `auto`."""
        check_ours(options)
        loaded = load_trained(options)
        known = None if begun is None else read_bad_files(begun / BAD_FILES)
        data, bad = open_clean(
            options.data, seed=options.seed, image_size=size_of(options), limit=options.bad_files, progress=bar, known=known
        )
        options = settle_pixels(options, data, loaded)
        torch.manual_seed(options.seed)
        model, error = prepare_model(options, data, loaded)
        return cls(data, model, replace(options, colors=model.vocabulary), bad, error)

    def find_rate(self, folder: Path, bar: ProgressBar) -> float:
        return find_rate(
            self.options,
            self.model,
            begin=RECIPES[self.options.recipe].lr,
            task=lambda trial: PixelModeling(trial, seed=self.options.seed, device=self.options.device),
            batches=make_loaders(self.options, self.data, self.preprocessing, BadFiles(pictures=1, limit=1.0), World())[0],
            folder=folder,
            bar=bar,
        )

    @property
    def preprocessing(self) -> Any:
        return self.model.preprocessing

    def describe(self, folder: Path, bar: ProgressBar) -> None:
        options, (height, width) = self.options, self.model.image_size
        counts = count_splits(self.data.splits)
        bar.say(f"{self.data.name}: {counts}; labels are not learned from")
        for note in self.data.notes:
            bar.say(f"  {note}")
        kind = "each pixel from those before it" if self.model.config.causal else "hidden pixels from all others"
        name = options.model if options.weights is None else f"weights of {options.weights}"
        bar.say(f"{name}: {count_parameters(self.model):,} parameters, {height * width} pixels a picture, {kind}")
        bar.say(f"palette of {options.colors} colors, {describe_error(self.palette_error)}")
        bar.say(describe_recipe(options))
        bar.say(f"writing to {folder}")

    def keep(self, folder: Path, bar: ProgressBar) -> None:
        list_bad(self.bad, folder, bar)

    def make_plan(self, *, device: str) -> Plan:
        return make_plan(self.options, device=device)

    def make_task(self, *, device: str, world: World) -> PixelModeling:
        return PixelModeling(self.model, seed=self.options.seed, device=device, compiled=self.options.compile, world=world)

    def make_loaders(self, world: World) -> tuple[Loader, Loader]:
        return make_loaders(self.options, self.data, self.preprocessing, self.bad, world)

    def finish(self, folder: Path, progress: Progress, bar: ProgressBar, world: World) -> tuple[dict[str, float], Any]:
        """Read test once, with the best model; then what its layers know of the labels, and completions of validation pictures."""
        model, options = load(folder / "best"), self.options
        device = world.device if world.size > 1 else options.device
        task = PixelModeling(model.to(device), seed=options.seed, device=device, world=world)
        loader = partial(Loader, batch=whole(options.batch), workers=whole(options.workers), on_bad=partial(note_bad, self.bad))
        test = loader(self.data["test"], model.preprocessing, rank=world.rank, world=world.size)
        metrics = dict(task.evaluate(test.batches()).metrics)
        if not world.first:
            return metrics, model
        probe = probe_model(task, self.data, loader)
        if isinstance(probe, Probe):
            metrics["probe_accuracy"] = probe.test[probe.best]
            bar.say(describe_probe(probe))
        self.write_report(folder, model, metrics, probe, progress)
        told = {
            "data": self.data.name, "split": "test", "metrics": metrics, "recipe": options.recipe,
            "pictures": {name: len(split) for name, split in self.data.splits.items()},
        }  # fmt: skip
        found = {} if not isinstance(probe, Probe) else {"probe": {"test": probe.test, "validation": probe.validation}}
        write_whole(folder / "probe.json", json.dumps(found, indent=2) + "\n")
        lines = [describe_bad(self.bad) if self.bad.files else ""]
        end_run(folder, model, bar, told=told, kept={"split": "test", **metrics}, lines=lines)
        return metrics, model

    def write_report(
        self, folder: Path, model: Any, metrics: Mapping[str, float], probe: Probe | str, progress: Progress
    ) -> None:
        from vitrail.report.completions import pixel_sections  # they import matplotlib
        from vitrail.report.pretraining import PretrainingReport, write_pretraining_report

        options, (height, width) = self.options, model.image_size
        completions = show_some(model, self.data["val"], seed=options.seed) if model.config.causal else ()
        run = shlex.quote(str(folder))
        report = PretrainingReport(
            title=self.data.name,
            headline=headline("test", metrics),
            numbers={
                "mean probability of a color": f"{100 * metrics['likelihood']:.1f} %",
                "of guessing": f"{100 / model.vocabulary:.1f} %, {np.log2(model.vocabulary):.2f} bits",
            },
            facts={
                "Model": model_fact(options, model),
                "Pictures": f"{height}x{width}, " + count_splits(self.data.splits),
                "Palette": f"{model.vocabulary} colors, {describe_error(self.palette_error)}",
                "Training": training_fact(options, progress),
            },
            history=progress.rows,
            sections=tuple(pixel_sections(completions, probe)),
            commands={
                **({"Finish pictures": f"vitrail complete {run} PICTURE... --out DIR"} if model.config.causal else {}),
                "Score it again": f"vitrail eval {run}",
                **later_commands(folder, verb="pretrain"),
            },
            configuration=to_store(options),
        )
        write_pretraining_report(report, folder / REPORT)

    @staticmethod
    def evaluate(
        run: str, model: Any, trained: TrainOptions | None, options: EvalOptions, bar: ProgressBar
    ) -> dict[str, float]:
        """Bits a pixel on a split of the run's own data, divided as it was in training, or of other data."""
        if options.out is not None:
            raise VitrailError("--out: a model of pixels gives no predictions to write; vitrail complete draws pictures")
        opened = partial(open_clean, image_size=model.image_size, limit=options.bad_files, progress=bar)
        data, bad, name = open_scored(opened, run, trained, options)
        split = data[name]
        device = choose_device(options.device)
        workers = choose_workers(split) if options.workers == "auto" else options.workers
        pictures = Loader(split, model.preprocessing, batch=options.batch, workers=workers, on_bad=partial(note_bad, bad))
        task = PixelModeling(model.to(device), seed=0 if trained is None else trained.seed, device=device)
        metrics = dict(task.evaluate(pictures.batches()).metrics)
        if bad.files:
            bar.say(describe_bad(bad))
        return metrics


def probe_model(task: PixelModeling, data: DataSet, loader: Any) -> Probe | str:
    """What a linear classifier reads from each layer; or why there is nothing to read."""
    if data.multi_label:
        return "a picture of this data may have several labels, and the probe reads one"
    if len(data.classes) < 2:
        return "the data has no labels to tell apart"
    task.model.eval()
    splits: dict[Any, Labelled] = {}
    for name in ("train", "val", "test"):
        split: Split = data[name]
        chosen = np.array(spread(len(split), PROBED), dtype=np.int64)
        features, labels = [], []
        for batch in loader(Part(split, chosen), task.preprocessing).batches():
            features.append(layer_features(task.model, [task.encode(batch.images)]))
            labels.append(batch.labels)
        splits[name] = Labelled(torch.cat(features, dim=1), torch.cat(labels))
    return probe_layers(splits, len(data.classes))


def show_some(model: Any, split: Split, *, seed: int) -> Any:
    """Completions of some pictures, evenly chosen."""
    some = read_some(split, model.preprocessing, SHOWN)
    if some is None:
        return ()
    names = [split.name(index) for index in some.indices]
    return complete_pictures(model, some.pictures, names=names, samples=SAMPLES, seed=seed)


def note_bad(bad: BadFiles, error: PictureError) -> None:
    bad.add(BadFile(error.name, "", error.reason, "during"))


def describe_error(error: float) -> str:
    return "exact" if error == 0 else f"off by {error**0.5:.1f} of 255 levels (root mean square)"


def describe_probe(probe: Probe) -> str:
    shares = ", ".join(f"{100 * share:.1f}" for share in probe.test)
    return f"linear probe on test, % by block: {shares} (the largest class: {100 * probe.chance:.1f})"
