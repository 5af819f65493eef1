"""`vitrail cascade`: calibrated on validation, scored once on test, timed against its last model, saved with a report.

n images, s stages
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from vitrail.data.dataset import Split
from vitrail.deploy.measuring import interleaved
from vitrail.errors import VitrailError
from vitrail.files import write_table, write_whole
from vitrail.learn.metrics.bootstrap import bootstrap_interval
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.rendering import to_png
from vitrail.tasks.classify.cascade_calibration import Table, calibrate, outcome, route
from vitrail.tasks.classify.cascade_making import choose, images_of, make_stages, open_division, stage_costs, try_stages
from vitrail.tasks.classify.cascade_options import CascadeOptions
from vitrail.tasks.classify.cascade_pipeline import Cascade, CascadeReport
from vitrail.tasks.classify.cascade_report import (
    CascadePage,
    Point,
    StageRow,
    draw_cascade,
    stage_table,
    write_cascade_report,
)
from vitrail.tasks.classify.data import match_labels
from vitrail.tasks.classify.metrics import METRICS as METRICS_OF
from vitrail.tasks.metric import headline

FIGURE = "cascade.png"
TIMED = 2048  # test images that cascade and last model are timed on, evenly chosen, at most
LEVELS = 40  # points of the curve

METRICS, PREDICTIONS, REPORT = "metrics.json", "predictions.csv", "report.html"


@dataclass(frozen=True, kw_only=True)
class CascadeResult:
    """Of `vitrail cascade`."""

    cascade: Cascade
    unit: str
    stages: tuple[StageRow, ...]  # on test
    test: Point
    interval: tuple[float, float]  # 95 % of the test accuracy
    speedup: float  # throughput over the last model's
    seconds: tuple[float, float]  # of an image through the cascade and through the last model, in that comparison

    def to_json(self) -> dict[str, Any]:
        assert self.cascade.report is not None
        return {
            "split": "test",
            "accuracy": self.test.accuracy,
            "interval": self.interval,
            "agreement": self.test.agreement,
            "speedup": self.speedup,
            "seconds": self.seconds,
            "measure": self.cascade.measure,
            "stages": [stage._asdict() for stage in self.stages],
            "validation": asdict(self.cascade.report),
        }


def run_cascade(models: Sequence[str], options: CascadeOptions, *, quiet: bool = False) -> CascadeResult:
    """Everything the command does; --out gets the cascade, predictions.csv, metrics.json, cascade.png and report.html."""
    if options.batch < 1 or options.rounds < 1:
        raise VitrailError(f"--batch and --rounds must be at least 1, got {options.batch} and {options.rounds}")
    folder, bar = new_folder(options.out), ProgressBar(quiet=quiet)
    stages = make_stages(
        list(models) if options.sizes is None else models[0] if len(models) == 1 else list(models), options.sizes
    )
    data = match_labels(open_division(list(models), options.data, options.seed), stages[-1].classify.model)
    bar.say(f"{data.name}: {len(data['val']):,} validation images choose, {len(data['test']):,} of test are read once")
    trial = try_stages(stages, images_of(data["val"], stages), batch=options.batch)
    made, table = choose(stages, trial, agreement=options.agreement, sure=options.sure, cost=options.cost, data=data.name)
    assert made.report is not None
    bar.say(str(made.report))
    made.save(folder)
    result = score_test(made, data["test"], options)
    curve, chosen = draw_points(table, made.thresholds, data["val"].labels)
    write_results(folder, result, curve, chosen, models, options)
    return result


def new_folder(out: str) -> Path:
    folder = Path(out).expanduser()
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise VitrailError(f"--out {out}: expected a new or empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def score_test(made: Cascade, test: Split, options: CascadeOptions) -> CascadeResult:
    """The cascade and each of its models alone on test; the answers are those of the cascade as it runs."""
    folder = Path(options.out).expanduser()
    trial = try_stages(made.stages, images_of(test, made.stages), batch=options.batch)
    rows, stages_of = made.scores(images_of(test, made.stages), batch=options.batch)
    said, sure, where = rows.argmax(1).numpy(), rows.amax(1).numpy(), stages_of.numpy()
    right, agrees = said == test.labels, said == trial.answers[-1]
    costs = stage_costs(made.stages, trial, options.cost)
    table = trial.table(made.measure, costs)
    stages = tuple(
        StageRow(
            name=stage.name,
            threshold=made.thresholds[number] if number < len(made.thresholds) else None,
            share=float((where == number).mean()),
            accuracy=float(right[where == number].mean()) if (where == number).any() else None,
            agreement=float(agrees[where == number].mean()) if (where == number).any() else None,
            cost=float(costs[number]),
            alone=float((trial.answers[number] == test.labels).mean()),
        )
        for number, stage in enumerate(made.stages)
    )
    labels = made.labels
    answers = zip(test.labels.tolist(), said.tolist(), sure.tolist(), where.tolist(), strict=True)
    write_table(
        folder / PREDICTIONS,
        [
            ("picture", "truth", "predicted", "confidence", "stage"),
            *((test.name(i), labels[t], labels[p], f"{c:.6f}", s + 1) for i, (t, p, c, s) in enumerate(answers)),
        ],
    )
    seconds = time_both(made, test, batch=options.batch, rounds=options.rounds)
    return CascadeResult(
        cascade=made,
        unit="seconds" if options.cost == "seconds" else "multiply-adds",
        stages=stages,
        test=Point(outcome(table, made.thresholds).cost / float(costs[-1]), float(agrees.mean()), float(right.mean())),
        interval=bootstrap_interval(right),
        speedup=seconds[1] / seconds[0],
        seconds=seconds,
    )


def time_both(made: Cascade, split: Split, *, batch: int, rounds: int, most: int = TIMED) -> tuple[float, float]:
    """Seconds per image of the cascade and of its last model, from images in memory to probabilities: in turns, the best of each."""
    indices = np.unique(np.linspace(0, len(split) - 1, min(most, len(split))).astype(int)).tolist()
    target = made.largest_size()
    images = [split.read(index, target=target) for index in indices]
    last = made.stages[-1].classify

    def alone() -> None:
        for start in range(0, len(images), batch):
            last.probabilities(images[start : start + batch])

    found = interleaved({"cascade": lambda: made.scores(images, batch=batch), "last": alone}, rounds=rounds)
    return found["cascade"].best / len(images), found["last"].best / len(images)


def draw_points(table: Table, thresholds: tuple[float, ...], truth: Int[np.ndarray, "n"]) -> tuple[list[Point], Point]:
    """The curve of cost against agreement and accuracy, by calibrating for more and more disagreements; and the chosen point."""
    most = int((table.answers[:-1] != table.answers[-1]).any(axis=0).sum())
    counts = sorted(
        {round(most * (level / LEVELS) ** 2) for level in range(LEVELS + 1)}
    )  # close together where few may disagree
    found = [point_of(table, calibrate(table, count).thresholds, truth) for count in counts]
    return found, point_of(table, thresholds, truth)


def point_of(table: Table, thresholds: tuple[float, ...], truth: Int[np.ndarray, "n"]) -> Point:
    done, where = outcome(table, thresholds), route(table.confidences, thresholds)
    said = table.answers[where, np.arange(len(where))]
    return Point(done.cost / float(table.costs[-1]), done.agreement, float((said == truth).mean()))


def describe_result(result: CascadeResult) -> list[str]:
    """For people; the last line is the score."""
    head, rows = stage_table(result.stages, result.unit)
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)]
    low, high = result.interval
    return [
        *lines,
        f"answers of test as by {result.stages[-1].name}: {100 * result.test.agreement:.2f} %",
        describe_speed(result),
        f"95 % interval {100 * low:.2f} to {100 * high:.2f} %",
        headline(METRICS_OF, "test", {"accuracy": result.test.accuracy}),
    ]


def describe_speed(result: CascadeResult) -> str:
    cascade, last = result.seconds
    return f"throughput: {1 / cascade:,.0f} images per second, {result.stages[-1].name} alone {1 / last:,.0f}: {result.speedup:.2f}x"


def write_results(
    folder: Path, result: CascadeResult, curve: list[Point], chosen: Point, models: Sequence[str], options: CascadeOptions
) -> None:
    """cascade.png, report.html and, last, metrics.json."""
    report: CascadeReport | None = result.cascade.report
    assert report is not None
    write_whole(folder / FIGURE, to_png(draw_cascade(curve, chosen, result.test)))
    sure = "" if options.sure is None else f", {100 * options.sure:g} % sure of it"
    page = CascadePage(
        title=f"A cascade of {len(result.stages)} stages",
        headline=headline(METRICS_OF, "test", {"accuracy": result.test.accuracy}),
        against=f"{result.stages[-1].name} alone: {100 * result.stages[-1].alone:.2f} %",
        unit=result.unit,
        stages=result.stages,
        curve=curve,
        chosen=chosen,
        test=result.test,
        details={
            "Asked for": f"agreement of {100 * options.agreement:g} % on validation{sure}",
            "Agreement": f"{100 * report.agreement:.2f} % of {report.pictures:,} validation images, {100 * result.test.agreement:.2f} % of test",
            "Confidence": f"by {result.cascade.measure}, the cheapest of three on validation",
            "Throughput": describe_speed(result).removeprefix("throughput: "),
        },
        commands={
            "Use it": f"vitrail predict {shlex.quote(str(folder))} image.png",
            "Make it again": f"vitrail cascade {shlex.join(models)} --agreement {options.agreement:g} --out DIR",
        },
    )
    write_cascade_report(page, folder / REPORT)
    write_whole(folder / METRICS, json.dumps(result.to_json(), indent=2) + "\n")
