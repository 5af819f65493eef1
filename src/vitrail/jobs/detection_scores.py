"""Scoring a detector: the end of training, and `vitrail eval`; what they write."""

import json
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vitrail.data.bad_files import BadFiles
from vitrail.data.box_batches import BoxLoader, BoxPictures
from vitrail.data.dataset import DataSet, Split, SplitName, origin
from vitrail.data.formats.marks import MarkedSplit
from vitrail.data.loading import choose_workers
from vitrail.data.picture_store import PictureStore
from vitrail.errors import VitrailError, suggestion
from vitrail.files import write_table, write_whole
from vitrail.jobs.classifying import note_bad
from vitrail.jobs.cleaning import describe_bad, open_clean_boxes
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
from vitrail.tasks.detect import Detect, Detections, usual_threshold

ANSWERS = "predictions.json"
COLUMNS = ("picture", "label", "score", "xmin", "ymin", "xmax", "ymax")


def score(
    model: Any,
    data: DataSet,
    name: SplitName,
    *,
    batch: int,
    workers: int,
    device: str,
    bad: BadFiles,
    world: World | None = None,
) -> Detections:
    """Every box that the model gives for a split; pictures that have become unreadable since they were tried are left out."""
    world = world or World()
    pictures = BoxPictures(
        PictureStore(data[name], channels=model.config.in_channels, budget=0),
        model.preprocessing,
        renumber=renumber(data.classes, labels_of(model), where=data.name),
    )
    loader = BoxLoader(
        pictures, batch=batch, workers=workers, on_bad=partial(note_bad, bad, name), rank=world.rank, world=world.size
    )
    return Detect(model.to(device), device=device, world=world, by_size=True).evaluate(loader.batches())


def labels_of(model: Any) -> tuple[str, ...]:
    return model.labels or tuple(f"LABEL_{number}" for number in range(model.num_classes))


def renumber(classes: Sequence[str], labels: Sequence[str], *, where: str) -> list[int] | None:
    """What the model calls each class of the data; None where both count alike. A class that it does not know cannot be scored."""
    for name in classes:
        if name not in labels:
            raise VitrailError(f'{where}: the model knows no class "{name}"{suggestion(name, labels)}')
    found = [labels.index(name) for name in classes]
    return None if found == list(range(len(labels))) else found


def finish(
    folder: Path, data: DataSet, options: TrainOptions, progress: Progress, bar: ProgressBar, bad: BadFiles, world: World
) -> tuple[dict[str, float], Any]:
    """Read test once, with the best model; write boxes, report and metrics, in this order: metrics.json ends a run."""
    model = load(folder / "best")
    device = world.device if world.size > 1 else options.device
    found = score(
        model, data, "test", batch=whole(options.batch), workers=whole(options.workers), device=device, bad=bad, world=world
    )
    if not world.first:
        return found.metrics, model
    height, width = model.image_size
    facts = {
        "Model": model_fact(options, model),
        "Pictures": f"{height}x{width}, " + count_splits(data.splits),
        "Training": training_fact(options, progress),
    }
    past: dict[str, Any] = {"rows": progress.rows, "configuration": to_store(options), "commands": commands_for_run(folder)}
    write_scores(folder, found, model, data, "test", "test", facts=facts, **past)
    told = {
        "data": data.name, "split": "test", "metrics": found.metrics, "recipe": options.recipe,
        "pictures": {name: len(part) for name, part in data.splits.items()},
    }  # fmt: skip
    lines = [tell_scores(found.metrics), describe_bad(bad) if bad.files else ""]
    end_run(folder, model, bar, told=told, kept={"split": "test", **found.metrics}, lines=lines)
    return found.metrics, model


def evaluate_detector(
    run: str, model: Any, trained: TrainOptions | None, options: EvalOptions, bar: ProgressBar
) -> dict[str, float]:
    """Average precision on a split of the run's own pictures, divided as in training, or of other pictures with the same classes."""
    opened = partial(open_clean_boxes, image_size=model.image_size, limit=options.bad_files, progress=bar)
    data, bad, name = open_scored(opened, run, trained, options)
    folder = make_folder(options, bad)
    workers = choose_workers(data[name]) if options.workers == "auto" else options.workers
    found = score(model, data, name, batch=options.batch, workers=workers, device=choose_device(options.device), bad=bad)
    if bad.files:
        bar.say(describe_bad(bad))
    if folder is not None:
        facts = {"Model": f"{run}, {count_parameters(model):,} parameters", "Pictures": f"{len(data[name]):,}"}
        past = past_of(run, trained, commands_for_run)
        write_scores(folder, found, model, data, name, options.split, facts=facts, **past)
        bar.say(f"report: {folder / REPORT}")
    return found.metrics


def tell_scores(metrics: Mapping[str, float]) -> str:
    words = {"ap": "AP", "ap75": "AP75", "ap_small": "small", "ap_medium": "medium", "ap_large": "large"}
    return ", ".join(f"{word} {100 * metrics[name]:.1f} %" for name, word in words.items() if name in metrics)


def write_scores(
    folder: Path,
    found: Detections,
    model: Any,
    data: DataSet,
    name: SplitName,
    split: str,
    *,
    facts: Mapping[str, str],
    rows: Any,
    configuration: Mapping[str, Any],
    commands: Mapping[str, str],
) -> None:
    """predictions.json in COCO's format of results, predictions.csv, a row a box, and report.html. `split`: what `name` is called."""
    from vitrail.report.detection import DetectionReport, choose_examples, write_detection_report  # they import matplotlib

    labels, pictures = labels_of(model), data[name]
    answers = list_answers(found, pictures, [data.classes.index(label) if label in data.classes else None for label in labels])
    write_whole(folder / ANSWERS, json.dumps(answers) + "\n")
    lines = (
        (pictures.name(int(row[0])), labels[int(row[1])], f"{row[2]:.6g}", *(f"{value:.2f}" for value in row[3:]))
        for row in found.found.tolist()
    )
    write_table(folder / PREDICTIONS, [COLUMNS, *lines])
    report = DetectionReport(
        title=data.name,
        headline=headline(split, found.metrics),
        facts=facts,
        history=rows,
        precision=found.precision,
        counts=[int((found.truth[:, 1] == number).sum()) for number in range(model.num_classes)],
        labels=labels,
        examples=choose_examples(found, pictures, threshold=usual_threshold(model.config)),
        threshold=usual_threshold(model.config),
        commands=commands,
        configuration=configuration,
    )
    write_detection_report(report, folder / REPORT)


def list_answers(found: Detections, pictures: Split, numbers: Sequence[int | None]) -> list[dict[str, Any]]:
    """[{"image_id", "category_id", "bbox": [x, y, width, height], "score"}], by what the data's file calls pictures and classes, where it
    does; the picture's file beside them. `numbers`: of each class of the model in the data, if it is in it."""
    answers = []
    for index, number, score, x0, y0, x1, y1 in found.found.tolist():
        whole, place = origin(pictures, int(index))
        kind = numbers[int(number)]
        ids, kinds = (whole.ids, whole.kinds) if isinstance(whole, MarkedSplit) else (range(len(whole)), range(len(numbers)))
        answers.append(
            {
                "image_id": ids[place],
                "category_id": None if kind is None else kinds[kind],
                "bbox": [round(value, 2) for value in (x0, y0, x1 - x0, y1 - y0)],
                "score": round(score, 6),
                "file_name": Path(pictures.name(int(index))).name,
            }
        )
    return answers


def commands_for_run(folder: Path) -> dict[str, str]:
    run = shlex.quote(str(folder))
    return {
        "Find objects in pictures": f"vitrail predict {run} PICTURE... --out DIR",
        "See where it looks for them": f"vitrail explain {run} PICTURE... --out DIR",
        "Score it on other pictures": f"vitrail eval {run} --data FOLDER",
        **later_commands(folder),
    }
