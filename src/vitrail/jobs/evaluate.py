"""Scoring a trained model on a split, whatever the task (jobs/trades.py): `vitrail eval`, and what it shares with the end of training."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from vitrail.errors import VitrailError
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.stored import read_options
from vitrail.jobs.trades import find_trade, foreign_options
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.run_folder import CONFIG
from vitrail.models.catalogue import rebuild_merging
from vitrail.models.folder import find, load
from vitrail.models.purpose import Purpose, purpose_of
from vitrail.records import from_record

METRICS, PREDICTIONS, REPORT = "metrics.json", "predictions.csv", "report.html"
HEADLINES = (
    "ap50",
    "map",
    "miou",
    "accuracy",
    "exact",
    "bleu",
    "perplexity",
    "bits_per_pixel",
    "psnr",
    "explained",
    "knn",
    "spread",
    "dice",
)  # the metric to end with, the first that there is

ONLY_SOME = frozenset(
    {"beams", "workers", "bad_files", "degrade", "window", "flip_test", "scales", "ignore_index"}
)  # options of eval that not every task has

OF_PROTOCOL = frozenset({"labels", "seeds", "epochs"})
NOT_OF_PROTOCOL = frozenset({"split", "beams", "degrade", "merge", "window", "flip_test", "scales", "ignore_index"})

TASKS: Mapping[Purpose, str] = {
    "translate": "translate", "language": "language", "fill": "language", "caption": "caption", "igpt": "igpt",
    "restore": "restore",
    "mri": "mri",
    "segment": "segment",
    "detect": "detect",
    "segment3d": "segment3d",
}  # what scores them  # fmt: skip


def score_words(split: str, metric: str, value: float) -> str:
    if metric == "psnr":
        return f"{split} psnr {value:.2f} dB"
    if metric == "perplexity":
        return f"{split} perplexity {value:.2f}"
    if metric == "bits_per_pixel":
        return f"{split} {value:.3f} bits a pixel"
    if metric == "ap50":
        return f"{split} AP50 {100 * value:.2f} %"
    if metric in ("knn", "spread"):
        return f"{split} k-NN accuracy {100 * value:.2f} %" if metric == "knn" else f"{split} spread of features {value:.3f}"
    if metric == "bleu":
        return f"{split} BLEU {100 * value:.2f}"
    name = {"map": "mAP", "miou": "mIoU", "dice": "Dice"}.get(metric, metric)
    return f"{split} {name} {100 * value:.2f} %"


def headline(split: str, metrics: Mapping[str, float]) -> str:
    """The last line of training and of `eval`."""
    metric = next(name for name in HEADLINES if name in metrics)
    return score_words(split, metric, metrics[metric])


def evaluate(
    run: str | Path, *, data: str | Path | None = None, split: str = "test", batch: int = 64, beams: int | None = None,
    workers: int | None = None, bad_files: float = 0.05, degrade: str | None = None, device: str = "auto",
    out: str | Path | None = None, protocol: str | Sequence[str] | None = None, labels: float | int | str | Sequence[float | int] | None = None,
    seeds: int = 1, epochs: int | None = None, merge: int | None = None, window: Sequence[int] | None = None, flip_test: bool = False,
    scales: Sequence[float] | None = None, ignore_index: int | Sequence[int] | None = None,
) -> dict[str, float]:  # fmt: skip
    """`vitrail eval` in Python: the metrics of a run or model folder on a split of its own data, or of other data.

    With `protocol` ("knn,linear", or a list) the test accuracy by "protocol share", such as "knn 0.1".
    """
    record = {
        "data": None if data is None else str(data), "split": split, "batch": batch, "beams": beams,
        "workers": "auto" if workers is None else workers, "bad_files": bad_files, "degrade": degrade, "device": device,
        "out": None if out is None else str(out), "protocol": join_words(protocol), "labels": join_words(labels), "seeds": seeds,
        "epochs": epochs, "merge": merge, "window": window, "flip_test": flip_test, "scales": scales,
        "ignore_index": (ignore_index,) if isinstance(ignore_index, int) else ignore_index,
    }  # fmt: skip
    return run_evaluation(str(run), from_record(EvalOptions, record, what="evaluate"))


def join_words(words: float | int | str | Sequence[object] | None) -> str | None:
    """As the command line has it: several with commas."""
    if words is None or isinstance(words, str):
        return words
    return ",".join(map(str, words)) if isinstance(words, Sequence) else str(words)


def run_evaluation(run: str, options: EvalOptions, *, quiet: bool = False) -> dict[str, float]:
    check_options(options)
    if options.protocol is not None:
        from vitrail.run.protocols import run_protocols, summarize  # which train, and so evaluate

        return summarize(run_protocols(run, options, quiet=quiet))
    model, trained = rebuild_merging(load(run), options.merge), training_options(run)
    task = task_of(model) if trained is None else trained.task
    check_ours(options, task)
    return find_trade(task).evaluate(run, model, trained, options, ProgressBar(quiet=quiet))


def check_options(options: EvalOptions) -> None:
    """Every number within its range, and nothing that belongs to another kind of evaluation."""
    if options.batch < 1 or (options.workers != "auto" and options.workers < 0):
        raise VitrailError(f"--batch must be at least 1 and --workers at least 0, got {options.batch} and {options.workers}")
    if not 0 <= options.bad_files <= 1:
        raise VitrailError(f"--bad-files must be a share from 0 to 1, got {options.bad_files}")
    if options.beams is not None and options.beams < 1:
        raise VitrailError(f"--beams must be at least 1, got {options.beams}")
    check_protocol(options)


def task_of(model: Any) -> str:
    """What scores it: the method by which it learned, or what it is for."""
    purpose = purpose_of(model)
    return str(model.architecture) if purpose == "pretrain" else TASKS.get(purpose, "classify")


def check_ours(options: EvalOptions, task: str) -> None:
    """An option that says nothing to a task is refused, not passed over."""
    defaults = {field.name: field.default for field in fields(options)}
    for name, topic in foreign_options(task).items():
        if name in ONLY_SOME and getattr(options, name) != defaults[name]:
            raise VitrailError(f"--{name.replace('_', '-')} is about {topic}: a model of --task {task} has none")


def check_protocol(options: EvalOptions) -> None:
    """What belongs to --protocol, and what does not."""
    others = OF_PROTOCOL if options.protocol is None else NOT_OF_PROTOCOL
    defaults = {field.name: field.default for field in fields(options)}
    for name in sorted(others):
        if getattr(options, name) != defaults[name]:
            rule = "needs --protocol" if options.protocol is None else "says nothing to --protocol"
            raise VitrailError(f"--{name} {getattr(options, name)} {rule}")


def same_source(one: str, other: str) -> bool:
    return one == other or Path(one).expanduser().resolve() == Path(other).expanduser().resolve()


def training_options(run: str) -> TrainOptions | None:
    """What the run that a model comes from was asked to do, or None for a model folder by itself."""
    folder = find(run).resolve()
    path = folder.parent / CONFIG
    if folder.name not in ("best", "last") or not path.is_file():
        return None
    return read_options(path)


def read_metrics(folder: Path) -> dict[str, float] | None:
    """The test metrics of a finished run, or None."""
    try:
        found: dict[str, Any] = json.loads((folder / METRICS).read_text())
        return {name: float(value) for name, value in found.items() if name not in ("split", "interval", "signature")}
    except (OSError, ValueError, AttributeError, TypeError):
        return None


def scored_split(folder: Path) -> str:
    """What a finished run was scored on: test, or val where there is no test split."""
    try:
        return str(json.loads((folder / METRICS).read_text()).get("split", "test"))
    except (OSError, ValueError, AttributeError):
        return "test"
