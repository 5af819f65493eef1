"""Accelerated MRI as a job: scans that are read or simulated, a model that reconstructs them, and options settled by both."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitrail.data.examples import spread
from vitrail.data.mri.batches import Sampling, ScanBatches
from vitrail.data.mri.opening import ScanData, is_measured, open_scans
from vitrail.data.mri.slices import Slices, SomeSlices
from vitrail.files import write_table
from vitrail.jobs.evaluate import PREDICTIONS, REPORT, headline
from vitrail.jobs.facts import count_splits, end_run, later_commands, model_fact, training_fact
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.planning import describe_recipe, find_rate, make_plan, whole
from vitrail.jobs.reconstruction_settling import (
    RECIPES,
    check_ours,
    describe_sampling,
    load_trained,
    passes_of,
    prepare_model,
    sampling_of,
    settle_scan,
)
from vitrail.jobs.scored_data import choose_source, make_folder, past_of
from vitrail.jobs.settling import size_of
from vitrail.jobs.stored import to_store
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress, Row
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load
from vitrail.tasks.reconstruct import COLUMNS, Reconstruct, ReconstructionScores

SHOWN = 6  # slices in the report
SAME_MASKS = 0  # seed of the masks that validate and test: the same for every run, so that runs can be compared
SCORED = 4  # slices at a time, at most: what all coils of one need is much


class Reconstructing:
    """Satisfies `jobs.trades.Trade`."""

    def __init__(self, data: ScanData, model: Any, options: TrainOptions) -> None:
        self.data, self.model, self.options = data, model, options
        self.name, self.sampling = data.name, sampling_of(options)

    @classmethod
    def prepare(cls, options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> "Reconstructing":
        """Scans, of which --slices are learned from, and a model for them."""
        check_ours(options)
        loaded = load_trained(options)
        data = open_own(options)
        data.splits["train"] = choose_slices(data.splits["train"], options.slices)
        options = settle_scan(options, len(data.splits["train"]), loaded)
        torch.manual_seed(options.seed)
        return cls(data, prepare_model(options, loaded), options)

    def find_rate(self, folder: Path, bar: ProgressBar) -> float:
        return find_rate(
            self.options,
            self.model,
            begin=RECIPES[self.options.recipe].lr,
            task=lambda trial: Reconstruct(trial, objective=self.options.objective, device=self.options.device),
            batches=self.make_loaders(World())[0],
            folder=folder,
            bar=bar,
        )

    def describe(self, folder: Path, bar: ProgressBar) -> None:
        options = self.options
        bar.say(f"{self.data.name}: slices: {count_splits(self.data.splits)}")
        for note in self.data.notes:
            bar.say(f"  {note}")
        bar.say(
            f"{describe_sampling(self.sampling)}{'; no truth is learned from' if options.objective == 'equivariant' else ''}"
        )
        name = options.model if options.weights is None else f"weights of {options.weights}"
        kept = {"none": "", "hard": ", measured lines kept", "sense": ", fitted to all measured lines"}[options.consistency]
        bar.say(f"{name}: {count_parameters(self.model):,} parameters, {self.model.config.network}{kept}")
        bar.say(describe_recipe(options))
        bar.say(f"writing to {folder}")

    def keep(self, folder: Path, bar: ProgressBar) -> None:
        """Nothing: the data is divided, and masks are drawn, by what config.yaml says."""

    def make_plan(self, *, device: str) -> Plan:
        return make_plan(self.options, device=device)

    def make_task(self, *, device: str, world: World) -> Reconstruct:
        options = self.options
        return Reconstruct(self.model, objective=options.objective, device=device, compiled=options.compile, world=world)

    def make_loaders(self, world: World) -> tuple[ScanBatches, ScanBatches]:
        """Training slices, shuffled, with new masks each time; validation slices with theirs."""
        train, batch = self.data.splits["train"], whole(self.options.batch)
        training = ScanBatches(
            train,
            self.sampling,
            batch=batch,
            shuffle=True,
            passes=passes_of(len(train), batch, share=self.share_of_rows()),
            rows=self.options.rows,
            seed=self.options.seed,
            rank=world.rank,
            world=world.size,
        )
        return training, scored_batches(self.data.splits["val"], self.sampling, world)

    def share_of_rows(self) -> float:
        """How much of a slice a band is."""
        rows, height = self.options.rows, self.data.splits["train"][0].size[0]
        return 1.0 if rows is None else min(rows, height) / height

    def finish(self, folder: Path, progress: Progress, bar: ProgressBar, world: World) -> tuple[dict[str, float], Any]:
        """Read test once, with the best model; write scores, report and metrics, in this order: metrics.json ends a run."""
        model, options, test = load(folder / "best"), self.options, self.data.splits["test"]
        device = world.device if world.size > 1 else options.device
        found, names = score_slices(model, test, self.sampling, device=device, world=world)
        if not world.first:
            return found.metrics, model
        write_scores(
            folder,
            found,
            names,
            self.sampling,
            split="test",
            title=self.data.name,
            facts={
                "Model": model_fact(options, model),
                "Slices": count_splits(self.data.splits),
                "Scan": describe_sampling(self.sampling),
                "Training": training_fact(options, progress),
            },
            rows=progress.rows,
            commands=commands_for_run(folder),
            configuration=to_store(options),
        )
        told = {
            "data": self.data.name, "split": "test", "metrics": found.metrics, "recipe": options.recipe,
            "pictures": {name: len(split) for name, split in self.data.splits.items()},
        }  # fmt: skip
        end_run(folder, model, bar, told=told, kept={"split": "test", **found.metrics}, lines=[describe_gain(found)])
        return found.metrics, model

    @staticmethod
    def evaluate(
        run: str, model: Any, trained: TrainOptions | None, options: EvalOptions, bar: ProgressBar
    ) -> dict[str, float]:
        """Of a model on a split of the run's own data, divided as it was then, or on all slices of other data; accelerated as in
        training, by the same masks each time."""
        source, own = choose_source(run, trained, options)
        if own and trained is not None:
            data, split = open_own(trained), options.split
            if split == "train":
                data.splits["train"] = choose_slices(data.splits["train"], trained.slices)
        else:
            size = None if trained is None or is_measured(Path(source).expanduser()) else size_of(trained)
            data, split = open_scans(source, image_size=size, divide=False), "train"
        sampling = Sampling() if trained is None else sampling_of(trained)
        slices = data.splits[split]
        folder, device = make_folder(options), choose_device(options.device)
        found, names = score_slices(model, slices, sampling, batch=min(options.batch, SCORED), device=device)
        if len(slices) <= SHOWN:
            pairs = zip(found.column("psnr_zero_filled"), found.column("psnr"), strict=True)
            for index, (before, after) in zip(found.indices.tolist(), pairs, strict=True):
                bar.say(f"{names[index]}: zero-filled {before:.2f} dB, reconstructed {after:.2f} dB")
        bar.say(describe_gain(found))
        if folder is not None:
            write_scores(
                folder,
                found,
                names,
                sampling,
                split=options.split,
                title=f"{data.name}: {options.split}" if own else data.name,
                facts={
                    "Model": f"{run}, {count_parameters(model):,} parameters",
                    "Data": options.data or data.name,
                    "Scan": describe_sampling(sampling),
                },
                **past_of(run, trained, commands_for_run),
            )
        return found.metrics


def open_own(options: TrainOptions) -> ScanData:
    """The data of a run, simulated and divided as its options say."""
    return open_scans(options.data, seed=options.seed, image_size=size_of(options), scalp=options.scalp)


def choose_slices(slices: Slices, wanted: int | None) -> Slices:
    """So many of them, evenly chosen; all where that is not said."""
    return slices if wanted is None else SomeSlices(slices, np.array(spread(len(slices), wanted)))


def scored_batches(slices: Slices, sampling: Sampling, world: World | None = None, *, batch: int = SCORED) -> ScanBatches:
    world = world or World()
    return ScanBatches(slices, sampling, batch=batch, seed=SAME_MASKS, rank=world.rank, world=world.size)


def score_slices(
    model: Any, slices: Slices, sampling: Sampling, *, batch: int = SCORED, device: str, world: World | None = None
) -> tuple[ReconstructionScores, list[str]]:
    """What a model makes of slices, and what they are called."""
    batches = scored_batches(slices, sampling, world, batch=batch)
    task = Reconstruct(model.to(device), shown=spread(len(slices), SHOWN), device=device, world=world)
    return task.evaluate(batches.batches()), batches.names


def write_scores(
    folder: Path,
    found: ReconstructionScores,
    names: Sequence[str],
    sampling: Sampling,
    *,
    split: str,
    title: str,
    facts: Mapping[str, str],
    rows: Sequence[Row],
    commands: Mapping[str, str],
    configuration: Mapping[str, object],
) -> None:
    """predictions.csv, a line a slice, and report.html."""
    from vitrail.report.reconstruction import ReconstructionReport, write_reconstruction_report  # here: it imports matplotlib

    scores = zip(found.indices.tolist(), found.rows.tolist(), strict=True)
    lines = ((names[index], *(f"{value:.6f}" for value in row)) for index, row in scores)
    write_table(folder / PREDICTIONS, [("slice", *COLUMNS), *lines])
    report = ReconstructionReport(
        title=title,
        headline=headline(split, found.metrics),
        found=found,
        names=names,
        sampling=describe_sampling(sampling),
        facts=facts,
        history=rows,
        commands=commands,
        configuration=configuration,
    )
    write_reconstruction_report(report, folder / REPORT)


def describe_gain(found: ReconstructionScores) -> str:
    metrics = found.metrics
    gain = metrics["psnr"] - metrics["psnr_zero_filled"]
    return (
        f"zero-filled {metrics['psnr_zero_filled']:.2f} dB, reconstructed {metrics['psnr']:.2f} dB ({gain:+.2f}) on "
        f"{len(found.rows):,} slices; ssim {metrics['ssim_zero_filled']:.4f} to {metrics['ssim']:.4f}"
    )


def commands_for_run(folder: Path) -> dict[str, str]:
    run = shlex.quote(str(folder))
    return {
        "Score it on another scan": f"vitrail eval {run} --data scan.npz --out scores/",
        "Start another run from it": f"vitrail train --task mri --data DATA --weights {run}",
        **later_commands(folder),
    }
