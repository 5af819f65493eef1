"""Labels for volumes as a job: scans and their labels, a model that tells voxels apart, and options settled by both."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from vitrail.data.bad_files import BAD_FILES, BadFile, BadFiles
from vitrail.data.examples import spread
from vitrail.data.volumes.cases import Case, Preparing
from vitrail.data.volumes.crops import VolumeBatches
from vitrail.data.volumes.opening import VolumeData, open_volumes
from vitrail.errors import VitrailError
from vitrail.files import write_table
from vitrail.jobs.evaluate import PREDICTIONS, REPORT, headline
from vitrail.jobs.facts import count_splits, end_run, later_commands, model_fact, training_fact
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.planning import describe_recipe, find_rate, make_plan, real, whole
from vitrail.jobs.scored_data import choose_source, make_folder, past_of
from vitrail.jobs.segmenting3d_settling import (
    RECIPES,
    check_ours,
    crops_of,
    load_trained,
    prepare_model,
    preparing_of,
    settle_volumes,
    varying_of,
)
from vitrail.jobs.stored import to_store
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress, Row
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load, save
from vitrail.tasks.segment3d import Segment3d, VolumeScores, mean_of

COARSE = 0.25  # overlap of windows, at most, where an epoch is to be chosen
SHOWN = 4  # volumes in the report
TOLD = 5  # bad files that are named; the others are counted
COLUMNS = ("case", "class", "dice", "surface_mm", "hausdorff95_mm", "found_ml", "truth_ml")


OnBad = Callable[[int, VitrailError], None]


class Segmenting3d:
    """Satisfies `jobs.trades.Trade`."""

    def __init__(self, data: VolumeData, model: Any, options: TrainOptions) -> None:
        self.data, self.model, self.options, self.name = data, model, options, data.name
        self.preparing = preparing_of(options, data)
        cases = len(data.bad) + sum(map(len, data.splits.values()))
        self.bad = BadFiles(cases, limit=1.0, files={one.name: one for one in data.bad})

    @classmethod
    def prepare(cls, options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> "Segmenting3d":
        check_ours(options)
        loaded = load_trained(options)
        data = open_own(options)
        options = settle_volumes(options, data, loaded)
        torch.manual_seed(options.seed)
        return cls(data, prepare_model(options, data, loaded), options)

    def find_rate(self, folder: Path, bar: ProgressBar) -> float:
        return find_rate(
            self.options,
            self.model,
            begin=RECIPES[self.options.recipe].lr,
            task=lambda trial: Segment3d(trial, device=self.options.device),
            batches=self.make_loaders(World())[0],
            folder=folder,
            bar=bar,
        )

    def describe(self, folder: Path, bar: ProgressBar) -> None:
        options = self.options
        bar.say(f"{self.data.name}: volumes: {count_splits(self.data.splits)}; {', '.join(self.data.classes[:12])}")
        for note in (*self.data.notes, *tell_bad(self.data)):
            bar.say(f"  {note}")
        assert options.crop is not None
        assert options.window_level is not None
        low, high = options.window_level
        edges = "kept" if options.spacing is None else " x ".join(f"{edge:g}" for edge in options.spacing)
        crop = " x ".join(map(str, options.crop))
        bar.say(f"intensities {low:g} to {high:g} become 0 to 1, spacing {edges}, crops of {crop}")
        name = options.model if options.weights is None else f"weights of {options.weights}"
        bar.say(f"{name}: {count_parameters(self.model):,} parameters")
        bar.say(describe_recipe(options))
        bar.say(f"writing to {folder}")

    def keep(self, folder: Path, bar: ProgressBar) -> None:
        """The list of what could not be read; the rest is divided, and crops are drawn, by what config.yaml says."""
        self.bad.path = folder / BAD_FILES
        self.bad.write()

    def make_plan(self, *, device: str) -> Plan:
        return make_plan(self.options, device=device)

    def make_task(self, *, device: str, world: World) -> Segment3d:
        options = self.options
        return Segment3d(
            self.model,
            overlap=min(options.overlap, COARSE),
            smoothing=real(options.smoothing),
            device=device,
            compiled=options.compile,
            world=world,
        )

    def make_loaders(self, world: World) -> tuple[VolumeBatches, VolumeBatches]:
        """Crops of the training volumes, drawn anew each epoch; whole validation volumes."""
        options, train = self.options, self.data.splits["train"]
        assert options.crop is not None
        x, y, z = options.crop
        training = VolumeBatches(
            lambda number: self.preparing.load(train[number]),
            len(train),
            crop=(x, y, z),
            count=crops_of(len(train), whole(options.batch)),
            batch=whole(options.batch),
            foreground=options.foreground,
            varying=varying_of(options),
            seed=options.seed,
            rank=world.rank,
            world=world.size,
            on_bad=partial(note_bad_case, self.bad, "train", train),
        )
        validation = self.data.splits["val"]
        on_bad = partial(note_bad_case, self.bad, "val", validation)
        return training, whole_volumes(validation, self.preparing, world, on_bad=on_bad)

    def finish(self, folder: Path, progress: Progress, bar: ProgressBar, world: World) -> tuple[dict[str, float], Any]:
        """Read test once, with the best model; write scores, report and metrics, in this order: metrics.json ends a run."""
        model, options, test = load(folder / "best"), self.options, self.data.splits["test"]
        device = world.device if world.size > 1 else options.device
        model.config = replace(model.config, largest=self.choose_largest(model, bar, device=device, world=world))
        if model.config.largest and world.first:
            save(model, folder / "best")
        on_bad = partial(note_bad_case, self.bad, "test", test)
        found = score_cases(model, test, self.preparing, overlap=options.overlap, device=device, world=world, on_bad=on_bad)
        if not world.first:
            return found.metrics, model
        write_scores(
            folder,
            found,
            [case.name for case in test],
            self.data.classes,
            split="test",
            title=self.data.name,
            facts={
                "Model": model_fact(options, model),
                "Volumes": count_splits(self.data.splits),
                "Training": training_fact(options, progress),
                **parts_fact(model, self.data.classes),
            },
            rows=progress.rows,
            commands=commands_for_run(folder),
            configuration=to_store(options),
        )
        told = {
            "data": self.data.name, "split": "test", "metrics": found.metrics, "recipe": options.recipe,
            "pictures": {name: len(split) for name, split in self.data.splits.items()},
        }  # fmt: skip
        end_run(
            folder,
            model,
            bar,
            told=told,
            kept={"split": "test", **found.metrics},
            lines=describe_classes(found, self.data.classes),
        )
        return found.metrics, model

    def choose_largest(self, model: Any, bar: ProgressBar, *, device: str, world: World) -> tuple[int, ...]:
        """The classes of which only the largest part is kept: as --keep-largest says, or where validation gains by it [Isensee+ 2021]."""
        every = tuple(range(1, model.num_classes))
        if self.options.keep_largest != "auto":
            return every if self.options.keep_largest == "all" else ()
        whole, largest = (self.validate(model, parts, device=device, world=world) for parts in ((), every))
        chosen = tuple(number for number in every if largest[number] > whole[number])
        for number in chosen:
            bar.say(
                f"{self.data.classes[number]}: only the largest part is kept, which brings validation from a Dice of "
                f"{100 * whole[number]:.2f} to {100 * largest[number]:.2f} %"
            )
        return chosen

    def validate(self, model: Any, largest: tuple[int, ...], *, device: str, world: World) -> Float[np.ndarray, "k"]:
        """Dice of each class on validation, the mean of the volumes that say something of it."""
        task = Segment3d(model.to(device), overlap=self.options.overlap, largest=largest, device=device, world=world)
        cases = self.data.splits["val"]
        on_bad = partial(note_bad_case, self.bad, "val", cases)
        found = task.evaluate(whole_volumes(cases, self.preparing, world, on_bad=on_bad).batches())
        return np.array([mean_of(column[:, None], 0.0) for column in found.dice.T])

    @staticmethod
    def evaluate(
        run: str, model: Any, trained: TrainOptions | None, options: EvalOptions, bar: ProgressBar
    ) -> dict[str, float]:
        """Of a model on a split of the run's own data, divided as it was then, or on other volumes: on that split of theirs, or on all if they
        are not divided. Scores are of the files' own voxels, whatever spacing the model reads."""
        source, own = choose_source(run, trained, options)
        if own and trained is not None:
            data, split = open_own(trained), options.split
        else:
            data = open_volumes(source, divide=False)
            split = "train" if set(data.splits) == {"train"} else options.split
        for line in tell_bad(data):
            bar.say(line)
        if split not in data.splits:
            raise VitrailError(f"{source}: no split {split}; it has {', '.join(data.splits)}")
        config, cases = model.config, data.splits[split]
        values = config.values or tuple(range(model.num_classes))
        preparing = Preparing(config.spacing, config.window, values)
        classes = model.labels or tuple(map(str, values))
        folder, device = make_folder(options), choose_device(options.device)
        overlap = 0.5 if trained is None else trained.overlap
        found = score_cases(model, cases, preparing, overlap=overlap, device=device)
        for line in describe_classes(found, classes):
            bar.say(line)
        if folder is not None:
            write_scores(
                folder,
                found,
                [case.name for case in cases],
                classes,
                split=options.split,
                title=f"{data.name}: {options.split}" if own else data.name,
                facts={
                    "Model": f"{run}, {count_parameters(model):,} parameters",
                    "Data": options.data or data.name,
                    **parts_fact(model, classes),
                },
                **past_of(run, trained, commands_for_run),
            )
        return found.metrics


def open_own(options: TrainOptions) -> VolumeData:
    """The data of a run, divided as its options say."""
    return open_volumes(options.data, seed=options.seed, divide_axis=options.divide_axis)


def tell_bad(data: VolumeData) -> list[str]:
    """What was left out, in a few lines."""
    lines = [f"left out: {one.name}: {one.reason}" for one in data.bad[:TOLD]]
    return [*lines, f"and {len(data.bad) - TOLD} more"] if len(data.bad) > TOLD else lines


def note_bad_case(bad: BadFiles, split: str, cases: Sequence[Case], number: int, error: VitrailError) -> None:
    """A volume that could be read when the run began, and cannot any more."""
    bad.add(BadFile(cases[number].name, split, str(error), "during"))


def whole_volumes(
    cases: Sequence[Case], preparing: Preparing, world: World | None = None, *, on_bad: OnBad | None = None
) -> VolumeBatches:
    world = world or World()
    return VolumeBatches(
        lambda number: preparing.load(cases[number], native=True), len(cases), rank=world.rank, world=world.size, on_bad=on_bad
    )


def score_cases(
    model: Any, cases: Sequence[Case], preparing: Preparing, *, overlap: float, device: str, world: World | None = None,
    on_bad: OnBad | None = None,
) -> VolumeScores:  # fmt: skip
    """What a model makes of volumes, distances of surfaces too."""
    shown = spread(len(cases), SHOWN)
    task = Segment3d(model.to(device), overlap=overlap, distances=True, shown=shown, device=device, world=world)
    return task.evaluate(whole_volumes(cases, preparing, world, on_bad=on_bad).batches())


def write_scores(
    folder: Path,
    found: VolumeScores,
    names: Sequence[str],
    classes: Sequence[str],
    *,
    split: str,
    title: str,
    facts: Mapping[str, str],
    rows: Sequence[Row],
    commands: Mapping[str, str],
    configuration: Mapping[str, object],
) -> None:
    """predictions.csv, a line for each class of each volume, and report.html."""
    from vitrail.report.volumes import VolumeReport, write_volume_report  # here: it imports matplotlib

    parts = (found.dice, found.mean_distance, found.most_distance, found.found_ml, found.truth_ml)
    lines = (
        (names[int(index)], name, *("" if np.isnan(part[row, number]) else f"{part[row, number]:.6f}" for part in parts))
        for row, index in enumerate(found.indices)
        for number, name in enumerate(classes)
        if number
    )
    write_table(folder / PREDICTIONS, [COLUMNS, *lines])
    report = VolumeReport(
        title=title,
        headline=headline(split, found.metrics),
        found=found,
        names=names,
        classes=classes,
        facts=facts,
        history=rows,
        commands=commands,
        configuration=configuration,
    )
    write_volume_report(report, folder / REPORT)


def parts_fact(model: Any, classes: Sequence[str]) -> dict[str, str]:
    """That of some classes only the largest part is kept, if so."""
    kept = [classes[number] for number in model.config.largest]
    return {"Only the largest part": "of each class" if len(kept) == len(classes) - 1 else ", ".join(kept)} if kept else {}


def describe_classes(found: VolumeScores, classes: Sequence[str]) -> list[str]:
    """A line for each class: means over the volumes that have it."""
    lines = []
    for number, name in enumerate(classes):
        scores = found.dice[:, number]
        if not number or not np.isfinite(scores).any():
            continue
        line = f"{name}: Dice {100 * np.nanmean(scores):.2f} %"
        if np.isfinite(found.mean_distance[:, number]).any():
            mean, most = np.nanmean(found.mean_distance[:, number]), np.nanmean(found.most_distance[:, number])
            line += f", surfaces {mean:.2f} mm apart, 95 % within {most:.2f} mm"
        lines.append(line)
    return lines


def commands_for_run(folder: Path) -> dict[str, str]:
    run = shlex.quote(str(folder))
    return {
        "Label another scan": f"vitrail predict {run} scan.nii.gz --out labels/",
        "Score it on other volumes": f"vitrail eval {run} --data FOLDER --out scores/",
        "Start another run from it": f"vitrail train --task segment3d --data DATA --weights {run}",
        **later_commands(folder),
    }
