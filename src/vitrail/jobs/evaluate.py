"""Scoring a trained model on a split: the end of training, and `vitrail eval`."""

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vitrail.data.dataset import DataSet, Split
from vitrail.data.loading import Loader, choose_workers
from vitrail.data.opening import open_data
from vitrail.data.transforms import fit_picture
from vitrail.errors import VitrailError
from vitrail.files import write_whole
from vitrail.jobs.machine import choose_device
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.stored import read_options, to_store
from vitrail.learn.training.progress_bar import ProgressBar, clock
from vitrail.learn.training.run_folder import CONFIG
from vitrail.learn.training.state import Progress, Row
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import find, load
from vitrail.records import from_record
from vitrail.report.classification import ClassificationReport, write_report
from vitrail.tasks.classify import Classify, Predictions

METRICS, PREDICTIONS, REPORT = "metrics.json", "predictions.csv", "report.html"


@dataclass(frozen=True)
class Scored:
    """A model's answers on a split."""

    metrics: dict[str, float]
    predictions: Predictions
    split: Split
    labels: tuple[str, ...]


def headline(split: str, metrics: dict[str, float]) -> str:
    """The last line of training and of `eval`."""
    return f"{split} accuracy {100 * metrics['accuracy']:.2f} %"


def score(model: Any, labels: tuple[str, ...], split: Split, *, batch: int, workers: int, device: str) -> Scored:
    pictures = Loader(split, model.preprocessing, batch=batch, workers=workers)
    predictions = Classify(model.to(device), device=device).evaluate(pictures.batches())
    return Scored(predictions.metrics, predictions, split, labels)


def evaluate(
    run: str | Path, *, data: str | Path | None = None, split: str = "test", batch: int = 64, workers: int | None = None,
    device: str = "auto", out: str | Path | None = None,
) -> dict[str, float]:  # fmt: skip
    """`vitrail eval` in Python: the metrics of a run or model folder on a split of its own data, or of other data."""
    given = {"data": None if data is None else str(data), "out": None if out is None else str(out)}
    record = {**given, "split": split, "batch": batch, "workers": "auto" if workers is None else workers, "device": device}
    return run_evaluation(str(run), from_record(EvalOptions, record, what="evaluate"))


def run_evaluation(run: str, options: EvalOptions) -> dict[str, float]:
    if options.batch < 1 or (options.workers != "auto" and options.workers < 0):
        raise VitrailError(f"--batch must be at least 1 and --workers at least 0, got {options.batch} and {options.workers}")
    model, trained = load(run), training_options(run)
    if trained is not None and (options.data is None or same_source(options.data, trained.data)):
        # Divided as it was in training: nothing that was learned from is scored as test.
        data = open_data(trained.data, seed=trained.seed, image_size=model.image_size)
    elif options.data is not None:
        data = open_data(options.data, image_size=model.image_size, divide=False)
    else:
        raise VitrailError(f"{run}: a model folder does not say what it was trained on; give --data")
    data = match_labels(data, model)
    split = data["train" if set(data.splits) == {"train"} else options.split]  # undivided: all of it
    workers = choose_workers(split) if options.workers == "auto" else options.workers
    scored = score(model, data.classes, split, batch=options.batch, workers=workers, device=choose_device(options.device))
    if options.out is not None:
        folder = Path(options.out).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        write_predictions(folder / PREDICTIONS, scored)
        facts = {"Model": run, "Data": options.data or data.name, "Split": f"{options.split}, {len(split):,} pictures"}
        write_page(folder / REPORT, scored, model, title=f"{data.name}: {options.split}", headline=headline(options.split, scored.metrics),
                   facts=facts, rows=[], configuration={}, commands={"Score it again": f"vitrail eval {run}"})  # fmt: skip
    return scored.metrics


def same_source(one: str, other: str) -> bool:
    return one == other or Path(one).expanduser().resolve() == Path(other).expanduser().resolve()


def training_options(run: str) -> TrainOptions | None:
    """What the run that a model comes from was asked to do, or None for a model folder by itself."""
    folder = find(run).resolve()
    path = folder.parent / CONFIG
    if folder.name not in ("best", "last") or not path.is_file():
        return None
    return read_options(path)


def match_labels(data: DataSet, model: Any) -> DataSet:
    """The data with its labels numbered as the model numbers them."""
    labels: tuple[str, ...] | None = model.labels
    if not model.num_classes:
        raise VitrailError("this model has no classifier: it was made with num_classes=0")
    if labels is None and len(data.classes) != model.num_classes:
        raise VitrailError(
            f"{data.name}: has {len(data.classes)} classes; the model has {model.num_classes} and does not say which"
        )
    if labels is None or data.classes == labels:
        return data
    unknown = [name for name in data.classes if name not in labels]
    if unknown:
        raise VitrailError(
            f"{data.name}: the model does not know the class {unknown[0]!r}; it knows {', '.join(labels[:8])}{' …' if labels[8:] else ''}"
        )
    numbers = np.array([labels.index(name) for name in data.classes])
    splits: dict[Any, Split] = {name: Renumbered(split, numbers) for name, split in data.splits.items()}
    return DataSet(name=data.name, classes=labels, splits=splits, notes=data.notes)


class Renumbered:
    """A split whose classes another data set counts in another order."""

    def __init__(self, split: Split, numbers: np.ndarray) -> None:
        self.split, self.numbers, self.labels = split, numbers, numbers[split.labels]

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.split[index][0], int(self.labels[index])

    def name(self, index: int) -> str:
        return self.split.name(index)


def finish(
    folder: Path, data: DataSet, options: TrainOptions, progress: Progress, bar: ProgressBar
) -> tuple[dict[str, float], Any]:
    """Read test once, with the best model; write predictions, report and metrics, in this order: metrics.json ends a run."""
    model = load(folder / "best")
    assert isinstance(options.batch, int)
    assert isinstance(options.workers, int)
    scored = score(model, data.classes, data["test"], batch=options.batch, workers=options.workers, device=options.device)
    write_predictions(folder / PREDICTIONS, scored)
    height, width = model.image_size
    facts = {
        "Model": f"{options.model if options.weights is None else options.weights}, {count_parameters(model):,} parameters",
        "Pictures": f"{height}x{width}, " + ", ".join(f"{len(split):,} {name}" for name, split in data.splits.items()),
        "Training": f"{progress.epoch} epochs in {clock(progress.elapsed)} on {options.device}; best: epoch {progress.best['epoch']:.0f}"
        if progress.best
        else "",
    }
    commands = {
        "Classify pictures": f"vitrail predict {folder} PICTURE...",
        "Score it again": f"vitrail eval {folder}",
        "Repeat this run": f"vitrail train --config {folder / CONFIG}",
    }
    line = headline("test", scored.metrics)
    write_page(folder / REPORT, scored, model, title=data.name, headline=line, facts=facts, rows=progress.rows,
               configuration=to_store(options), commands=commands)  # fmt: skip
    write_whole(folder / METRICS, json.dumps({"split": "test", **scored.metrics}, indent=2) + "\n")
    bar.say(f"report: {folder / REPORT}")
    return scored.metrics, model


def read_metrics(folder: Path) -> dict[str, float] | None:
    """The test metrics of a finished run, or None."""
    try:
        found = json.loads((folder / METRICS).read_text())
        return {name: float(value) for name, value in found.items() if name != "split"}
    except (OSError, ValueError, AttributeError):
        return None


def write_predictions(path: Path, scored: Scored) -> None:
    """A line a picture: what it is, what the model says, how sure it is."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["picture", "truth", "predicted", "confidence"])
    probabilities = scored.predictions.probabilities
    for index, (truth, row) in enumerate(zip(scored.predictions.truth, probabilities, strict=True)):
        best = int(row.argmax())
        writer.writerow([scored.split.name(index), scored.labels[truth], scored.labels[best], f"{row[best]:.6f}"])
    write_whole(path, text.getvalue())


def write_page(
    path: Path, scored: Scored, model: Any, *, title: str, headline: str, facts: dict[str, str],
    rows: list[Row], configuration: dict[str, Any], commands: dict[str, str],
) -> None:  # fmt: skip
    write_report(
        ClassificationReport(
            title=title,
            headline=headline,
            facts=facts,
            history=rows,
            labels=scored.labels,
            truth=scored.predictions.truth,
            probabilities=scored.predictions.probabilities.astype(np.float32),
            picture=lambda index: fit_picture(scored.split[index][0], model.preprocessing),
            names=scored.split.name,
            configuration=configuration,
            commands=commands,
        ),
        path,
    )
