"""Scoring a classifier on a split: the end of training, and `vitrail eval`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vitrail.data.bad_files import BadFile, BadFiles
from vitrail.data.dataset import DataSet, Part, Split
from vitrail.data.images import PictureError
from vitrail.data.loading import Loader, choose_workers
from vitrail.data.packing import PackedLoader
from vitrail.errors import VitrailError
from vitrail.files import write_table
from vitrail.jobs.cleaning import describe_bad, open_clean
from vitrail.jobs.evaluate import PREDICTIONS, REPORT, headline
from vitrail.jobs.facts import count_splits, end_run, model_fact, training_fact
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.reporting import commands_for_run, write_page
from vitrail.jobs.scored_data import make_folder, open_scored, past_of
from vitrail.jobs.stored import to_store
from vitrail.jobs.teaching import Taught, describe_teacher
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.run_folder import CONFIG
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load
from vitrail.tasks.classify.objective import Classify, Predictions


@dataclass(frozen=True)
class Scored:
    """A model's answers on a split."""

    metrics: dict[str, float]
    predictions: Predictions
    split: Split
    labels: tuple[str, ...]


def describe_interval(scored: Scored) -> str:
    low, high = scored.predictions.interval
    return f"95 % interval {100 * low:.2f} to {100 * high:.2f} %, by bootstrap over {len(scored.split):,} pictures"


def score(
    model: Any, labels: tuple[str, ...], split: Split, *, batch: int, workers: int, device: str, bad: BadFiles, name: str,
    world: World | None = None,
) -> Scored:  # fmt: skip
    """The model's answers; pictures that have become unreadable since they were tried are left out of the split."""
    world = world or World()
    met: set[str] = set()

    def note(error: PictureError) -> None:
        met.add(error.name)
        bad.add(BadFile(error.name, name, error.reason, "during"))

    packed = packing(model)
    make: Callable[..., Loader] = Loader if packed is None else partial(PackedLoader, **packed)
    pictures = make(split, model.preprocessing, batch=batch, workers=workers, on_bad=note, rank=world.rank, world=world.size)
    predictions = Classify(model.to(device), multi_label=split.labels.ndim == 2, device=device, world=world).evaluate(
        pictures.batches()
    )
    met = {name for names in world.gather(sorted(met)) for name in names}
    if met:
        split = Part(split, np.array([i for i in range(len(split)) if split.name(i) not in met], dtype=np.int64))
    return Scored(predictions.metrics, predictions, split, labels)


def packing(model: Any) -> dict[str, Any] | None:
    """What a loader of pictures in their own aspect must know of the model; None where it takes all at one size."""
    if model.preprocessing.fit != "aspect":
        return None
    return {"multiple": model.size_multiple, "prefix": model.config.prefix}


def evaluate_classifier(
    run: str, model: Any, trained: TrainOptions | None, options: EvalOptions, bar: ProgressBar
) -> dict[str, float]:
    """Of a model on a split: its metrics and, with --out, predictions and a report."""
    opened = partial(open_clean, image_size=model.image_size, limit=options.bad_files, progress=bar)
    data, bad, name = open_scored(opened, run, trained, options)
    data = match_labels(data, model)
    split = data[name]
    folder = make_folder(options, bad)
    workers = choose_workers(split) if options.workers == "auto" else options.workers
    scored = score(
        model,
        data.classes,
        split,
        batch=options.batch,
        workers=workers,
        device=choose_device(options.device),
        bad=bad,
        name=name,
    )
    if bad.files:
        bar.say(describe_bad(bad))
    if folder is not None:
        write_scores(
            folder,
            scored,
            model,
            options.split,
            data,
            bad,
            title=f"{data.name}: {options.split}",
            facts={
                "Model": f"{run}, {count_parameters(model):,} parameters",
                "Data": options.data or data.name,
                "Split": f"{options.split}, {len(scored.split):,} pictures",
            },
            **past_of(run, trained, lambda folder: commands_for_run(Path(run), model, config=folder / CONFIG)),
        )
    bar.say(describe_interval(scored))
    return scored.metrics


def match_labels(data: DataSet, model: Any) -> DataSet:
    """The data with its labels numbered as the model numbers them."""
    labels: tuple[str, ...] | None = model.labels
    if not model.num_classes:
        raise VitrailError("this model has no classifier: it was made with num_classes=0")
    if labels is None and len(data.classes) != model.num_classes:
        raise VitrailError(
            f"{data.name}: has {len(data.classes)} classes; the model has {model.num_classes} and does not say which"
        )
    if data.multi_label != model.multi_label:
        several, one = "any number of labels a picture", "one label a picture"
        raise VitrailError(
            f"{data.name}: has {several if data.multi_label else one}; the model gives {several if model.multi_label else one}"
        )
    if labels is None or data.classes == labels:
        return data
    unknown = [name for name in data.classes if name not in labels]
    if unknown:
        raise VitrailError(
            f"{data.name}: the model does not know the class {unknown[0]!r}; it knows {', '.join(labels[:8])}{' …' if labels[8:] else ''}"
        )
    numbers = np.array([labels.index(name) for name in data.classes])
    splits: dict[Any, Split] = {name: renumber(split, numbers, len(labels)) for name, split in data.splits.items()}
    return DataSet(name=data.name, classes=labels, splits=splits, notes=data.notes)


def renumber(split: Split, numbers: np.ndarray, classes: int) -> Split:
    """A split whose classes another data set counts in another order: class i becomes numbers[i] of `classes`."""
    if split.labels.ndim == 1:
        labels = numbers[split.labels]
    else:
        labels = np.zeros((len(split), classes), dtype=bool)
        labels[:, numbers] = split.labels
    return Part(split, np.arange(len(split)), labels=labels)


def finish(
    folder: Path,
    data: DataSet,
    options: TrainOptions,
    progress: Progress,
    bar: ProgressBar,
    bad: BadFiles,
    world: World,
    *,
    taught: Taught | None = None,
) -> tuple[dict[str, float], Any]:
    """Read test once, with the best model; write predictions, report and metrics, in this order: metrics.json ends a run."""
    model = load(folder / "best")
    assert isinstance(options.batch, int)
    assert isinstance(options.workers, int)
    on_test = partial(
        score,
        labels=data.classes,
        split=data["test"],
        batch=options.batch,
        workers=options.workers,
        device=world.device if world.size > 1 else options.device,
        bad=bad,
        name="test",
        world=world,
    )
    scored = on_test(model)
    if taught is not None:
        scored = compare(scored, on_test(taught.model), taught)
    if not world.first:
        return scored.metrics, model
    height, width = model.image_size
    facts = {
        "Model": model_fact(options, model),
        "Pictures": f"{height}x{width}, " + count_splits(data.splits),
        "Training": training_fact(options, progress),
        **({} if options.labels == 1 else {"Labels": f"{100 * options.labels:g} % of every class of the training pictures"}),
        **({} if taught is None else {"Teacher": teaching_fact(options, taught, scored.metrics)}),
    }
    write_scores(
        folder,
        scored,
        model,
        "test",
        data,
        bad,
        title=data.name,
        facts=facts,
        rows=progress.rows,
        configuration=to_store(options),
        commands=commands_for_run(folder, model, config=folder / CONFIG),
    )
    interval = scored.predictions.interval
    told = {
        "data": data.name,
        "split": "test",
        "metrics": scored.metrics,
        "interval": interval,
        "recipe": options.recipe,
        "pictures": {name: len(split) for name, split in data.splits.items()},
    }
    lines = [describe_interval(scored), describe_bad(bad) if bad.files else ""]
    if taught is not None:
        told["teacher"] = facts["Teacher"]
        lines.append(f"teacher: {facts['Teacher']}")
    kept = {"split": "test", "interval": interval, **scored.metrics}
    end_run(folder, model, bar, told=told, kept=kept, lines=lines)
    return scored.metrics, model


def compare(scored: Scored, teacher: Scored, taught: Taught) -> Scored:
    """The student's answers beside those of its teacher, who saw the same pictures, each prepared as it wants them."""
    if len(teacher.split) != len(scored.split):  # a picture has become unreadable between the two
        return scored
    predictions = replace(scored.predictions, teacher=teacher.predictions.logits[:, list(taught.columns)])
    return replace(scored, predictions=predictions, metrics=predictions.metrics)


def teaching_fact(options: TrainOptions, taught: Taught, metrics: dict[str, float]) -> str:
    """Who taught, and how much of it was taken over."""
    found = describe_teacher(options, taught).removeprefix("teacher: ")
    if "teacher_accuracy" not in metrics:
        return found
    right, alike = 100 * metrics["teacher_accuracy"], 100 * metrics["teacher_agreement"]
    return f"{found}; it is right on {right:.2f} % of test, and the student agrees with it on {alike:.2f} %"


def write_scores(
    folder: Path, scored: Scored, model: Any, split: str, data: DataSet, bad: BadFiles, **shown: Any
) -> None:  # fmt: skip
    """predictions.csv and report.html; `shown` is what else the report tells."""
    write_predictions(folder / PREDICTIONS, scored)
    line = headline(split, scored.metrics)
    write_page(folder / REPORT, scored.predictions, scored.split, model, labels=scored.labels, headline=line, data=data,
               bad=bad.files.values(), **shown)  # fmt: skip


def write_predictions(path: Path, scored: Scored) -> None:
    """A line a picture: what it is, what the model says, how sure it is; with several labels, how sure of each."""
    answers, labels = scored.predictions, np.array(scored.labels, dtype=object)
    sure = answers.probabilities
    if answers.multi_label:
        rows: list[list[object]] = [["picture", "truth", "predicted", *scored.labels]]
        for index, (truth, said) in enumerate(zip(answers.truth, answers.decisions, strict=True)):
            words = ("|".join(labels[truth]), "|".join(labels[said]))
            rows.append([scored.split.name(index), *words, *(f"{share:.6f}" for share in sure[index])])
    else:
        rows = [["picture", "truth", "predicted", "confidence"]]
        for index, (is_, said) in enumerate(zip(answers.truth, sure.argmax(axis=1), strict=True)):
            rows.append([scored.split.name(index), labels[is_], labels[said], f"{sure[index, said]:.6f}"])
    write_table(path, rows)
