"""Scoring a restorer on whole pictures: the end of training, and `vitrail eval`; what they write."""

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet, Split, SplitName
from vitrail.data.degradation import Degradation, parse_degradation
from vitrail.data.patches_of_pictures import whole_loader
from vitrail.data.picture_store import PictureStore
from vitrail.errors import VitrailError
from vitrail.files import write_table
from vitrail.jobs.classifying import note_bad
from vitrail.jobs.cleaning import describe_bad, open_clean_unlabelled
from vitrail.jobs.evaluate import PREDICTIONS, REPORT, headline
from vitrail.jobs.facts import count_splits, end_run, later_commands, model_fact, training_fact
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.planning import whole
from vitrail.jobs.scored_data import make_folder, open_scored, past_of
from vitrail.jobs.stored import to_store
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load
from vitrail.tasks.restore import COLUMNS, Restorations, Restore


def score(
    model: Any, data: DataSet, name: SplitName, how: Degradation, *, seed: int, device: str, bad: BadFiles, workers: int = 0,
    world: World | None = None,
) -> Restorations:  # fmt: skip
    """Every picture of a split, whole, with the same damage each time."""
    world = world or World()
    pictures = PictureStore(data[name], channels=model.config.in_channels, budget=0)
    pairs = whole_loader(
        pictures, how, seed=seed, workers=workers, on_bad=partial(note_bad, bad, name), rank=world.rank, world=world.size
    )
    return Restore(model.to(device), how, device=device, world=world).evaluate(pairs.batches())


def finish(
    folder: Path, data: DataSet, options: TrainOptions, progress: Progress, bar: ProgressBar, bad: BadFiles, world: World
) -> tuple[dict[str, float], Any]:
    """Read test once, or where there is none validation's pictures whole, with the best model; metrics.json ends a run."""
    model = load(folder / "best")
    split: SplitName = "test" if "test" in data.splits else "val"
    device = world.device if world.size > 1 else options.device
    how = parse_degradation(str(options.degrade))
    workers = whole(options.workers)
    found = score(model, data, split, how, seed=options.seed, device=device, bad=bad, workers=workers, world=world)
    if not world.first:
        return found.metrics, model
    facts = {
        "Model": model_fact(options, model),
        "Pictures": count_splits(data.splits),
        "Training": training_fact(options, progress),
    }
    past: dict[str, Any] = {"rows": progress.rows, "configuration": to_store(options), "commands": commands_for_run(folder)}
    write_scores(folder, found, data[split], how, split, title=data.name, facts=facts, **past)
    told = {
        "data": data.name, "split": split, "metrics": found.metrics, "recipe": options.recipe,
        "pictures": {name: len(part) for name, part in data.splits.items()},
    }  # fmt: skip
    lines = [compare_words(found.metrics, how), describe_bad(bad) if bad.files else ""]
    end_run(folder, model, bar, told=told, kept={"split": split, **found.metrics}, lines=lines)
    return found.metrics, model


def evaluate_restorer(
    run: str, model: Any, trained: TrainOptions | None, options: EvalOptions, bar: ProgressBar
) -> dict[str, float]:
    """PSNR and SSIM on a split of the run's own pictures, divided as in training, or of other pictures; against what the model
    learned to undo, or another damage of the same scale."""
    known = options.degrade or model.config.degradation
    if known is None:
        raise VitrailError(f"{run}: this model does not say what it learned to undo; give --degrade")
    how = parse_degradation(known)
    if how.scale != model.scale:
        raise VitrailError(f"--degrade {how} makes pictures {how.scale} times smaller; {run} enlarges them {model.scale} times")
    opened = partial(open_clean_unlabelled, limit=options.bad_files, progress=bar)
    data, bad, name = open_scored(opened, run, trained, options)
    seed = 0 if trained is None else trained.seed
    workers = 0 if options.workers == "auto" else options.workers
    found = score(model, data, name, how, seed=seed, device=choose_device(options.device), bad=bad, workers=workers)
    if not len(found.rows):
        raise VitrailError(f"{data.name}: no picture of {name} could be scored")
    folder = make_folder(options, bad)
    if folder is not None:
        facts = {"Model": f"{run}, {count_parameters(model):,} parameters", "Pictures": f"{len(data[name]):,}"}
        past = past_of(run, trained, commands_for_run)
        write_scores(folder, found, data[name], how, options.split, title=data.name, facts=facts, **past)
        bar.say(f"report: {folder / REPORT}")
    if bad.files:
        bar.say(describe_bad(bad))
    return found.metrics


def compare_words(metrics: Mapping[str, float], how: Degradation) -> str:
    """What there was before the model, in the same measure."""
    before = "bicubic" if how.scale > 1 else "given"
    return f"{before} {metrics['psnr_given']:.2f} dB, {metrics['psnr'] - metrics['psnr_given']:+.2f} dB by the model"


def write_scores(
    folder: Path,
    found: Restorations,
    pictures: Split,
    how: Degradation,
    split: str,
    *,
    title: str,
    facts: Mapping[str, str],
    rows: Any,
    configuration: Mapping[str, Any],
    commands: Mapping[str, str],
) -> None:
    """predictions.csv, a row a picture, and report.html."""
    from vitrail.report.restoration import PictureScore, RestorationReport, write_restoration_report  # they import matplotlib

    names = [pictures.name(index) for index in found.indices.tolist()]
    lines = ((name, *(f"{value:.6g}" for value in row)) for name, row in zip(names, found.rows, strict=True))
    write_table(folder / PREDICTIONS, [("picture", *COLUMNS), *lines])
    metrics = found.metrics
    report = RestorationReport(
        title=title,
        headline=headline(split, metrics),
        interval=compare_words(metrics, how),
        numbers={"SSIM": f"{metrics['ssim']:.4f}", "SSIM before": f"{metrics['ssim_given']:.4f}"},
        facts=facts,
        history=rows,
        examples=found.examples,
        scores=[
            PictureScore(name=name, psnr_restored=row[1], ssim_restored=row[2], psnr_given=row[3], ssim_given=row[4])
            for name, row in zip(names, found.rows.tolist(), strict=True)
        ],
        degradation=str(how),
        commands=commands,
        configuration=configuration,
    )
    write_restoration_report(report, folder / REPORT)


def commands_for_run(folder: Path) -> dict[str, str]:
    run = shlex.quote(str(folder))
    return {
        "Restore pictures": f"vitrail restore {run} PICTURE... --out DIR",
        "Score it on other pictures": f"vitrail eval {run} --data FOLDER",
        **later_commands(folder),
    }
