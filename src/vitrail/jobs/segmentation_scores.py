"""Scoring a segmenter on whole pictures: the end of training, and `vitrail eval`; what they write."""

import shlex
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet, Split, SplitName
from vitrail.data.dense_batches import whole_loader
from vitrail.data.examples import spread
from vitrail.data.formats.numbering import Numbers
from vitrail.errors import VitrailError
from vitrail.files import write_table
from vitrail.jobs.classifying import note_bad
from vitrail.jobs.cleaning import describe_bad
from vitrail.jobs.evaluate import PREDICTIONS, REPORT, headline
from vitrail.jobs.facts import count_splits, end_run, later_commands, model_fact, training_fact
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.planning import whole
from vitrail.jobs.scored_data import make_folder, open_scored, past_of
from vitrail.jobs.segmenting_settling import open_masked
from vitrail.jobs.stored import to_store
from vitrail.learn.metrics.confusion import matrix_scores
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.catalogue import count_parameters
from vitrail.models.dense_inference import Inference
from vitrail.models.folder import load
from vitrail.tasks.segment import COLUMNS, EXAMPLES, Segment, Segmentations

CLASSES = "classes.csv"
BATCH = 8  # pictures of one size that the model is asked about at a time


def score(
    model: Any, data: DataSet, name: SplitName, *, device: str, bad: BadFiles, workers: int = 0, world: World | None = None,
    how: Inference | None = None, batch: int = BATCH,
) -> Segmentations:  # fmt: skip
    """Every picture of a split, whole, edges too."""
    world = world or World()
    pictures = whole_loader(
        data[name], model.preprocessing, classes=model.num_classes, batch=batch, workers=workers,
        on_bad=partial(note_bad, bad, name), rank=world.rank, world=world.size,
    )  # fmt: skip
    task = Segment(model.to(device), how=how, edges=True, shown=spread(len(data[name]), EXAMPLES), device=device, world=world)
    return task.evaluate(pictures.batches())


def finish(
    folder: Path, data: DataSet, options: TrainOptions, progress: Progress, bar: ProgressBar, bad: BadFiles, world: World
) -> tuple[dict[str, float], Any]:
    """Read test once with the best model; metrics.json ends a run."""
    model = load(folder / "best")
    device = world.device if world.size > 1 else options.device
    found = score(model, data, "test", device=device, bad=bad, workers=whole(options.workers), world=world)
    if not world.first:
        return found.metrics, model
    facts = {
        "Model": model_fact(options, model),
        "Pictures": count_splits(data.splits),
        "Training": training_fact(options, progress),
    }
    past: dict[str, Any] = {"rows": progress.rows, "configuration": to_store(options), "commands": commands_for_run(folder)}
    write_scores(folder, found, model, data["test"], "test", title=data.name, facts=facts, **past)
    told = {
        "data": data.name, "split": "test", "metrics": found.metrics, "recipe": options.recipe,
        "pictures": {name: len(part) for name, part in data.splits.items()},
    }  # fmt: skip
    lines = [describe_weakest(found, data.classes), describe_bad(bad) if bad.files else ""]
    end_run(folder, model, bar, told=told, kept={"split": "test", **found.metrics}, lines=lines)
    return found.metrics, model


def evaluate_segmenter(
    run: str, model: Any, trained: TrainOptions | None, options: EvalOptions, bar: ProgressBar
) -> dict[str, float]:
    """mIoU and the rest on a split of the run's own pictures, divided as in training, or of other pictures with masks; whole or in
    windows, at several scales and mirrored as the options say."""
    ignore = choose_ignored(model, trained, options)
    opened = partial(open_masked, image_size=model.image_size, limit=options.bad_files, progress=bar, ignore=ignore)
    data, bad, name = open_scored(opened, run, trained, options)
    check_classes(data, model)
    how = Inference(window=options.window, scales=options.scales or (1.0,), flip=options.flip_test)
    workers = 0 if options.workers == "auto" else options.workers
    batch, device = min(BATCH, options.batch), choose_device(options.device)
    found = score(model, data, name, device=device, bad=bad, workers=workers, how=how, batch=batch)
    if not len(found.rows):
        raise VitrailError(f"{data.name}: no picture of {name} could be scored")
    folder = make_folder(options, bad)
    if folder is not None:
        facts = {"Model": f"{run}, {count_parameters(model):,} parameters", "Pictures": f"{len(data[name]):,}"}
        past = past_of(run, trained, commands_for_run)
        write_scores(folder, found, model, data[name], options.split, title=data.name, facts=facts, **past)
        bar.say(f"report: {folder / REPORT}")
    bar.say(describe_weakest(found, labels_of(model)))
    if bad.files:
        bar.say(describe_bad(bad))
    return found.metrics


def check_classes(data: DataSet, model: Any) -> None:
    """Masks must number classes as the model does; what has numbers for names is taken at its word, unless the model has, too."""
    known, found = labels_of(model), data.classes
    named = not all_numbers(found) or all_numbers(known)
    wrong = next((pair for pair in zip(found, known, strict=False) if pair[0] != pair[1]), None) if named else None
    if wrong is not None:
        raise VitrailError(f"{data.name}: its class {wrong[0]!r} has the number of {wrong[1]!r} in the model")
    if len(found) > len(known):
        raise VitrailError(
            f"{data.name}: {len(found)} classes, of which the model knows {len(known)}; --ignore-index names what is none"
        )


def choose_ignored(model: Any, trained: TrainOptions | None, options: EvalOptions) -> Numbers | None:
    """The numbers of masks that are no class: what the user says, what the run had, or what a model that calls its classes by numbers has
    no class for."""
    if options.ignore_index is not None:
        return options.ignore_index
    if trained is not None:
        return trained.ignore_index
    labels = labels_of(model)
    return tuple(sorted(set(range(max(map(int, labels)))) - set(map(int, labels)))) if all_numbers(labels) else None


def all_numbers(names: Iterable[str]) -> bool:
    return all(name.isdigit() for name in names)


def labels_of(model: Any) -> tuple[str, ...]:
    return model.labels or tuple(map(str, range(model.num_classes)))


def describe_weakest(found: Segmentations, labels: tuple[str, ...]) -> str:
    """The class that is told worst, in a line."""
    iou = np.where(np.isnan(found.iou), np.inf, found.iou)
    weakest = int(iou.argmin())
    return f"pixel accuracy {100 * found.metrics['pixel_accuracy']:.2f} %; the weakest class is {labels[weakest]}, IoU {100 * found.iou[weakest]:.2f} %"


def write_scores(
    folder: Path,
    found: Segmentations,
    model: Any,
    pictures: Split,
    split: str,
    *,
    title: str,
    facts: Mapping[str, str],
    rows: Any,
    configuration: Mapping[str, Any],
    commands: Mapping[str, str],
) -> None:
    """predictions.csv, a row a picture, classes.csv, a row a class, and report.html."""
    from vitrail.report.segmentation import SegmentationReport, write_segmentation_report  # they import matplotlib

    labels = labels_of(model)
    names = [pictures.name(index) for index in found.indices.tolist()]
    lines = ((name, *(f"{value:.6g}" for value in row)) for name, row in zip(names, found.rows, strict=True))
    write_table(folder / PREDICTIONS, [("picture", *COLUMNS), *lines])
    scores = matrix_scores(found.matrix)
    table = zip(labels, found.iou, scores.recall, scores.precision, found.boundary, scores.support, strict=True)
    written = ((label, *(f"{value:.6g}" for value in row), str(pixels)) for label, *row, pixels in table)
    write_table(folder / CLASSES, [("class", "iou", "recall", "precision", "boundary_f", "pixels"), *written])
    report = SegmentationReport(
        title=title, headline=headline(split, found.metrics), facts=facts, history=rows, found=found, labels=labels,
        colors=model.colors, commands=commands, configuration=configuration,
    )  # fmt: skip
    write_segmentation_report(report, folder / REPORT)


def commands_for_run(folder: Path) -> dict[str, str]:
    run = shlex.quote(str(folder))
    return {
        "Segment pictures": f"vitrail predict {run} PICTURE... --out DIR",
        "Score it again, mirrored and at three sizes": f"vitrail eval {run} --flip-test --scales 0.75 1 1.25",
        **later_commands(folder),
    }
