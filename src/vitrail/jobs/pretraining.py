"""Learning from pictures without their labels as a job, whatever the method (jobs/methods): data, a backbone, and what is around it."""

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import torch

from vitrail.data.bad_files import BAD_FILES, BadFiles, read_bad_files
from vitrail.data.dataset import DataSet, Split
from vitrail.data.loading import Loader, choose_workers
from vitrail.errors import VitrailError
from vitrail.jobs.classifying import note_bad
from vitrail.jobs.cleaning import describe_bad, list_bad
from vitrail.jobs.evaluate import REPORT, headline
from vitrail.jobs.facts import count_splits, end_run, later_commands, model_fact, training_fact
from vitrail.jobs.methods.method import Method, Recounting, Standalone
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.planning import describe_recipe, find_rate, make_plan, whole
from vitrail.jobs.pretraining_settling import load_backbone, open_pictures, prepare_backbone, settle_pretraining
from vitrail.jobs.scored_data import open_scored
from vitrail.jobs.settling import size_of
from vitrail.jobs.stored import to_store
from vitrail.learn.training.objective import Batches, Objective, warning_of
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.backbones import backbone_of
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load

# What is about labels, or not yet divided among processes.
NOT_OURS: Mapping[str, Any] = MappingProxyType(
    {
        "balance": "none", "smoothing": 0.0, "mixup": 0.0, "cutmix": 0.0, "token_keep": 1.0, "progressive": 1.0, "repeats": 1,
        "shard": False,
    }
)  # fmt: skip


class Pretraining:
    """Satisfies `jobs.trades.Trade`, for a method: `Pretraining.by`."""

    method: ClassVar[Method]

    def __init__(self, data: DataSet, model: Any, options: TrainOptions, bad: BadFiles) -> None:
        self.data, self.model, self.options, self.bad = data, model, options, bad
        self.name = data.name

    @classmethod
    def by(cls, method: Method) -> "type[Pretraining]":
        return type(f"{cls.__name__}By{type(method).__name__}", (cls,), {"method": method})

    @classmethod
    def prepare(cls, options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> "Pretraining":
        """Data without its bad files, a backbone for it, what the method puts around it, and options without `auto`."""
        loaded = load_backbone(options, cls.method)
        known = None if begun is None else read_bad_files(begun / BAD_FILES)
        data, bad = open_pictures(
            options.data, seed=options.seed, image_size=size_of(options), limit=options.bad_files, progress=bar, known=known
        )
        options = settle_pretraining(options, data, cls.method, loaded)
        torch.manual_seed(options.seed)
        model = cls.method.build(prepare_backbone(options, data, loaded, cls.method), options)
        return cls(data, model.to(options.device), options, bad)

    def find_rate(self, folder: Path, bar: ProgressBar) -> float:
        return find_rate(
            self.options,
            self.model,
            begin=self.method.recipes[self.options.recipe].lr,
            task=lambda trial: self.method.make_task(trial, self.data, self.options, device=self.options.device, world=World()),
            batches=self.method.make_loaders(self.model, self.data, self.options, BadFiles(pictures=1, limit=1.0), World())[0],
            folder=folder,
            bar=bar,
        )

    def describe(self, folder: Path, bar: ProgressBar) -> None:
        options, (height, width) = self.options, self.model.image_size
        bar.say(f"{self.data.name}: {count_splits(self.data.splits)} pictures; labels are not learned from")
        for note in self.data.notes:
            bar.say(f"  {note}")
        name = options.model if options.weights is None else f"weights of {options.weights}"
        bar.say(f"{name}: {self.count(name)}, pictures {height}x{width}")
        bar.say(f"{options.task}: {self.method.does}")
        for line in self.method.describe(self.model, options):
            bar.say(f"  {line}")
        bar.say(describe_recipe(options))
        bar.say(f"writing to {folder}")

    def count(self, name: str) -> str:
        """The parameters, in words."""
        every = count_parameters(self.model)
        if isinstance(self.method, Standalone):
            return f"{every:,} parameters"
        backbone = count_parameters(backbone_of(self.model, what=name))
        return f"{backbone:,} parameters and {every - backbone:,} around it"

    def keep(self, folder: Path, bar: ProgressBar) -> None:
        list_bad(self.bad, folder, bar)

    def make_plan(self, *, device: str) -> Plan:
        return make_plan(self.options, device=device, decay_growth=getattr(self.method, "decay_growth", 1.0))

    def make_task(self, *, device: str, world: World) -> Objective:
        return self.method.make_task(self.model, self.data, self.options, device=device, world=world)

    def make_loaders(self, world: World) -> tuple[Batches, Batches]:
        return self.method.make_loaders(self.model, self.data, self.options, self.bad, world)

    def finish(self, folder: Path, progress: Progress, bar: ProgressBar, world: World) -> tuple[dict[str, float], Any]:
        """Read test once, or validation where there is none, with the best model; then what it does, in pictures."""
        model, options = load(folder / "best"), self.options
        device = world.device if world.size > 1 else options.device
        task = self.method.make_task(model.to(device), self.data, options, device=device, world=world)
        name: Any = "test" if "test" in self.data.splits else "val"
        loader = plain_loader(self.data[name], model, whole(options.batch), whole(options.workers), self.bad, world)
        evaluation = task.evaluate(loader.batches())
        metrics, warning = dict(evaluation.metrics), warning_of(evaluation)
        if not world.first:
            return metrics, model
        self.write_report(folder, model, name, metrics, progress, warning)
        told = {
            "data": self.data.name, "split": name, "metrics": metrics, "recipe": options.recipe,
            "pictures": {name: len(split) for name, split in self.data.splits.items()},
        }  # fmt: skip
        lines = [warning and f"warning: {warning}", describe_bad(self.bad) if self.bad.files else ""]
        end_run(folder, model, bar, told=told, kept={"split": name, **metrics}, lines=lines)
        return metrics, model

    def write_report(
        self,
        folder: Path,
        model: Any,
        split: str,
        metrics: Mapping[str, float],
        progress: Progress,
        warning: str = "",
    ) -> None:
        from vitrail.report.pretraining import PretrainingReport, write_pretraining_report  # they import matplotlib

        options, (height, width), run = self.options, model.image_size, shlex.quote(str(folder))
        report = PretrainingReport(
            title=self.data.name,
            headline=headline(split, metrics),
            facts={
                "Method": f"{options.task}: {self.method.does}",
                "Model": model_fact(options, model),
                "Pictures": f"{height}x{width}, " + count_splits(self.data.splits),
                "Training": training_fact(options, progress),
                **({"Warning": warning} if warning else {}),
            },
            history=progress.rows,
            sections=(
                *(self.method.show_history(progress.rows, metrics) if isinstance(self.method, Recounting) else ()),
                *self.method.show(model, self.data, options),
            ),
            commands={
                **(
                    self.method.later(run)
                    if isinstance(self.method, Standalone)
                    else {
                        "Go on with labels": f"vitrail train --data DIR --weights {run}",
                        "What its features are good for": f"vitrail eval {run} --protocol knn,linear --labels 0.1,1",
                    }
                ),
                "Score it again": f"vitrail eval {run}",
                **later_commands(folder, verb="pretrain"),
            },
            configuration=to_store(options),
        )
        write_pretraining_report(report, folder / REPORT)

    @classmethod
    def evaluate(
        cls, run: str, model: Any, trained: TrainOptions | None, options: EvalOptions, bar: ProgressBar
    ) -> dict[str, float]:
        """The method's own loss on a split of the run's own data, divided as it was in training, or of other data."""
        if options.out is not None:
            raise VitrailError(
                "--out: pretraining gives no predictions to write; --protocol tells what its features are good for"
            )
        opened = partial(open_pictures, image_size=model.image_size, limit=options.bad_files, progress=bar)
        data, bad, name = open_scored(opened, run, trained, options)
        split, device = data["val" if name == "test" and "test" not in data.splits else name], choose_device(options.device)
        settled = trained or TrainOptions(data=options.data or "", task=cls.method.name)  # type: ignore[arg-type]
        workers = choose_workers(split) if options.workers == "auto" else options.workers
        task = cls.method.make_task(model.to(device), data, settled, device=device, world=World())
        evaluation = task.evaluate(plain_loader(split, model, options.batch, workers, bad, World()).batches())
        if warning := warning_of(evaluation):
            bar.say(f"warning: {warning}")
        if bad.files:
            bar.say(describe_bad(bad))
        return dict(evaluation.metrics)


def plain_loader(split: Split, model: Any, batch: int, workers: int, bad: BadFiles, world: World) -> Loader:
    """Pictures as they are."""
    return Loader(
        split,
        model.preprocessing,
        batch=batch,
        workers=workers,
        on_bad=partial(note_bad, bad, "test"),
        rank=world.rank,
        world=world.size,
    )
