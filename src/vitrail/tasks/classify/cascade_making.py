"""`vt.cascade`: stages from models, tried on validation images, and thresholds chosen by what they say there.

n images, s stages, k classes
"""

import os
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image

from vitrail.data.bad_files import find_bad, leave_out
from vitrail.data.copies import COPIES, read_copies
from vitrail.data.dataset import NO_COPIES, DataSet, Split
from vitrail.data.opening import divide_data, find_data, open_data, read_division
from vitrail.errors import VitrailError, check_choice
from vitrail.models.classifier import Classifier
from vitrail.models.folder import find, load
from vitrail.run_files import read_table
from vitrail.tasks.classify.cascade_calibration import (
    MEASURES,
    Measure,
    Outcome,
    Table,
    agreements,
    allowed_disagreements,
    calibrate,
    confidence,
    outcome,
)
from vitrail.tasks.classify.cascade_folder import as_cascade
from vitrail.tasks.classify.cascade_pipeline import Cascade, CascadeReport, Stage, at_size, check_stages
from vitrail.tasks.classify.predict import Pipeline

Cost = Literal["seconds", "multiply_adds"]
Model = Any  # one from vt.load or vt.create_model, or whatever vt.load takes


class Trial(NamedTuple):
    """What all stages say of the same images."""

    answers: Int[np.ndarray, "s n"]
    confidences: dict[Measure, Float[np.ndarray, "s n"]]
    seconds: Float[np.ndarray, "s"]  # of an image: the median over batches, in which the stages took turns

    def table(self, measure: Measure, costs: Float[np.ndarray, "s"]) -> Table:
        return Table(self.answers, self.confidences[measure], costs)


def make_cascade(
    models: Model | Sequence[Model],
    *,
    sizes: Sequence[int | tuple[int, int]] | None,
    agreement: float,
    sure: float | None,
    data: str | Path | DataSet | Split | None,
    seed: int | None,
    cost: Cost,
    batch: int,
    engine: str,
) -> Cascade:
    """See `run.cascade.cascade`."""
    saved = as_cascade(models, engine=engine) if sizes is None and data is None else None
    if saved is not None:
        return saved
    check_choice("cost", cost, get_args(Cost))
    stages = make_stages(models, sizes, engine=engine)
    sources = list(models) if isinstance(models, list | tuple) else [models]
    found = data if isinstance(data, DataSet | Split) else open_division(sources, data, seed)
    split = found["val"] if isinstance(found, DataSet) else found
    trial = try_stages(stages, images_of(split, stages), batch=batch)
    name = found.name if isinstance(found, DataSet) else "images"
    return choose(stages, trial, agreement=agreement, sure=sure, cost=cost, data=name)[0]


def make_stages(
    models: Model | Sequence[Model], sizes: Sequence[int | tuple[int, int]] | None = None, *, engine: str = "torch"
) -> list[Stage]:
    """Checked: at least two, with the same labels."""
    if sizes is None:
        if not isinstance(models, list | tuple) or len(models) < 2:
            raise VitrailError("a cascade needs at least two models, from cheap to dear, or one with sizes; got one without")
        opened = [load(model) if isinstance(model, str | Path) else model for model in models]
        stages = [
            Stage(name_of(source, number), Pipeline(model, engine=engine))
            for number, (source, model) in enumerate(zip(models, opened, strict=True))
        ]
    else:
        if isinstance(models, list | tuple):
            if len(models) != 1:
                raise VitrailError(f"sizes=[...] is of one model read at several sizes, got {len(models)} models")
            models = models[0]
        model: Classifier = load(models) if isinstance(models, str | Path) else cast(Classifier, models)
        pairs = [(size, size) if isinstance(size, int) else (size[0], size[1]) for size in sizes]
        if any(one[0] * one[1] >= other[0] * other[1] for one, other in pairwise(pairs)):
            raise VitrailError(f"sizes must grow, got {', '.join(f'{h}x{w}' for h, w in pairs)}")
        stages = [Stage(f"{h}x{w}", Pipeline(at_size(model, (h, w)), engine=engine), (h, w)) for h, w in pairs]
    check_stages(stages)
    for stage in stages:
        check_size(stage)
    return stages


def name_of(source: Model, number: int) -> str:
    """What to call a stage: the name of its run, or folder."""
    if not isinstance(source, str | Path):
        return f"model {number + 1}"
    path = Path(source).expanduser()
    return path.parent.name if path.name in ("best", "last") else path.name


def check_size(stage: Stage) -> None:
    """Whether the model reads images of the stage's size."""
    model = stage.classify.model
    height, width = model.preprocessing.size
    try:
        with torch.inference_mode():
            model(torch.zeros(1, model.config.in_channels, height, width, device=next(model.parameters()).device))
    except Exception as error:  # whatever a layer says of a size that it cannot have
        raise VitrailError(f"{stage.name}: the model cannot read images of {height}x{width} ({error})") from None


def open_division(sources: Sequence[Model], data: str | Path | None, seed: int | None) -> DataSet:
    """The data without what cannot be read, divided as the runs divided it, so that no stage has learned from the validation images."""
    runs = [(source, run_options(source)) for source in sources]
    known = [(source, options) for source, options in runs if options]
    if data is None:
        if not known or known[-1][0] is not sources[-1] or not isinstance(known[-1][1].get("data"), str):
            raise VitrailError("a cascade is calibrated on validation images: give data")
        data = known[-1][1]["data"]
    shares = {read_division(options)["val_share"] for _, options in known}
    if seed is None:
        seeds = {int(options.get("seed", 0)): source for source, options in known}
        if len(seeds) > 1:
            words = ", ".join(f"{source} by seed {number}" for number, source in seeds.items())
            whole = open_data(str(data), divide=False)
            if "val" not in whole.splits or shares != {None}:
                raise VitrailError(
                    f"the runs divided their data differently ({words}), so one has learned from what validates another; "
                    "give data with a val split of its own, or a seed"
                )
        seed = next(iter(seeds), 0)
    if len(shares) > 1:
        words = " and ".join("the data's own" if share is None else f"{share:g}" for share in sorted(shares, key=str))
        raise VitrailError(
            f"the runs divided their data differently (--val-split: {words}), so one has learned from what validates another"
        )
    found = find_data(str(data))
    unreadable = {bad.name for bad in find_bad(found, workers=os.cpu_count() or 1)}
    lists = [read_copies(run_of(source) / COPIES) for source, _ in known]
    if any(one != lists[0] for one in lists) and "val" not in found.splits:
        raise VitrailError("the runs know of other copies among their images, so one has learned from what validates another")
    left = replace(leave_out(found, unreadable), copies=lists[0] if lists else NO_COPIES)
    divisions = [read_division(options) for _, options in known]
    return divide_data(left, seed=seed, **(divisions[-1] if divisions else {}))  # in this order, as training does


def run_options(source: Model) -> dict[Any, Any]:
    """config.yaml of the run that a model comes from; empty where there is none."""
    if not isinstance(source, str | Path) or not Path(source).expanduser().exists():
        return {}
    path = run_of(source) / "config.yaml"
    return read_table(path) if find(source).resolve().name in ("best", "last") and path.is_file() else {}


def run_of(source: Model) -> Path:
    """The folder of the run that a model comes from."""
    assert isinstance(source, str | Path)
    return find(source).resolve().parent


def images_of(split: Split, stages: Sequence[Stage]) -> Iterator[Image.Image]:
    """Read one by one, no finer than the finest stage needs."""
    sizes = [stage.classify.model.preprocessing.size for stage in stages]
    target = (max(height for height, _ in sizes), max(width for _, width in sizes))
    return (split.read(index, target=target) for index in range(len(split)))


def try_stages(stages: Sequence[Stage], images: Iterable[Image.Image], *, batch: int) -> Trial:
    """Every stage on every image; the stages take turns at each batch, so that a slow moment of the machine is all of theirs."""
    source = iter(images)
    answers: list[list[np.ndarray]] = [[] for _ in stages]
    sure: dict[Measure, list[list[np.ndarray]]] = {measure: [[] for _ in stages] for measure in MEASURES}
    seconds: list[list[float]] = [[] for _ in stages]
    while group := list(islice(source, batch)):
        for number, stage in enumerate(stages):
            if not answers[number]:
                stage.classify.probabilities(group)  # the first pass of a model takes longer than the others
            begin = time.perf_counter()
            rows = stage.classify.probabilities(group).double().numpy()
            seconds[number].append((time.perf_counter() - begin) / len(group))
            answers[number].append(rows.argmax(axis=1))
            for measure in MEASURES:
                sure[measure][number].append(confidence(rows, measure))
    if not answers[0]:
        raise VitrailError("a cascade is calibrated on validation images: there are none")
    joined = {measure: np.stack([np.concatenate(parts) for parts in rows]) for measure, rows in sure.items()}
    medians = np.array([statistics.median(times) for times in seconds])
    return Trial(np.stack([np.concatenate(parts) for parts in answers]), joined, medians)


def stage_costs(stages: Sequence[Stage], trial: Trial, cost: Cost) -> Float[np.ndarray, "s"]:
    """Of one image."""
    return trial.seconds if cost == "seconds" else np.array([count_multiply_adds(stage) for stage in stages], dtype=np.float64)


def count_multiply_adds(stage: Stage) -> float:
    """Of the matrix products and convolutions of one image."""
    from torch.utils.flop_counter import FlopCounterMode  # here: slow to import

    model = stage.classify.model
    image = torch.zeros(1, model.config.in_channels, *model.preprocessing.size, device=next(model.parameters()).device)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        model(image)
    return counter.get_total_flops() / 2


def choose(
    stages: Sequence[Stage], trial: Trial, *, agreement: float, sure: float | None, cost: Cost, data: str, split: str = "val"
) -> tuple[Cascade, Table]:
    """The measure and the thresholds that cost least, and the numbers they were chosen by."""
    costs = stage_costs(stages, trial, cost)
    allowed = allowed_disagreements(trial.answers.shape[1], agreement, sure=sure)
    found: dict[Measure, Outcome] = {measure: calibrate(trial.table(measure, costs), allowed) for measure in MEASURES}
    measure = min(found, key=lambda name: found[name].cost)
    table = trial.table(measure, costs)
    report = describe(table, found[measure].thresholds, data=data, split=split, stated=agreement, sure=sure, cost=cost)
    return Cascade(stages, thresholds=found[measure].thresholds, measure=measure, report=report), table


def describe(
    table: Table, thresholds: tuple[float, ...], *, data: str, split: str, stated: float, sure: float | None, cost: Cost
) -> CascadeReport:
    """What a cascade with these thresholds does on the images of a table."""
    done = outcome(table, thresholds)
    return CascadeReport(
        data=data,
        split=split,
        pictures=table.answers.shape[1],
        stated=stated,
        sure=sure,
        cost=cost,
        agreement=done.agreement,
        shares=done.shares,
        agreements=agreements(table, thresholds),
        costs=tuple(table.costs.tolist()),
        mean_cost=done.cost,
    )
