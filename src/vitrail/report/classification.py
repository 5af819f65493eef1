"""report.html of a classification run, in the order people ask: the score, what goes wrong, why, the data, the options."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from vitrail.files import write_whole
from vitrail.learn.metrics.calibration import binary_calibration, calibration
from vitrail.learn.metrics.confusion import class_scores, confusion_matrix
from vitrail.learn.metrics.multilabel import average_precision, label_scores
from vitrail.report.attention import show_looks
from vitrail.report.classes import show_classes
from vitrail.report.confusions import show_confusions, show_pairs
from vitrail.report.contents import ClassificationReport
from vitrail.report.data_summary import show_data
from vitrail.report.interior import show_interior
from vitrail.report.page import Markup, contents, page, percent, section
from vitrail.report.positions import show_positions
from vitrail.report.reliability import show_calibration
from vitrail.report.run_parts import show_commands, show_curves, show_header, show_options
from vitrail.report.samples import show_best, show_unsure, show_worst

__all__ = ["ClassificationReport", "write_report"]

# What the numbers of metrics.json are called; the others are left to metrics.json.
WORDS: Mapping[str, str] = {
    "accuracy": "top-1 accuracy", "top5": "top-5 accuracy", "map": "mean average precision", "macro_f1": "macro-F1",
    "balanced_accuracy": "balanced accuracy", "f1_macro": "macro-F1", "f1_micro": "micro-F1", "exact_match": "all labels right",
    "ece": "calibration error", "class_head_accuracy": "its class head alone", "distilled_head_accuracy": "its distillation head alone",
    "teacher_accuracy": "its teacher", "teacher_agreement": "agrees with its teacher",
}  # fmt: skip


def write_report(report: ClassificationReport, path: Path) -> None:
    """Write the page. Whoever reads `path` meanwhile sees the old page or the new one, never a part."""
    sections = list(_sections(report))
    write_whole(path, page(report.title, _header(report), contents(sections), *sections))


def _header(report: ClassificationReport) -> Markup:
    numbers = {words: percent(report.metrics[name]) for name, words in WORDS.items() if name in report.metrics}
    interval = ""
    if report.interval is not None and np.isfinite(report.interval).all():
        low, high = report.interval
        interval = f"95 % interval {100 * low:.1f}–{100 * high:.1f} %, by bootstrap over {report.count:,} pictures"
        if low == high:  # it knows only what happened: a width of 0 would promise too much
            interval = f"no interval by bootstrap: all {report.count:,} pictures came out alike"
    return show_header(report.title, report.headline, interval=interval, numbers=numbers, facts=report.facts)


def _sections(report: ClassificationReport) -> Iterator[Markup]:
    if report.history:
        yield show_curves(report.history)
    if not report.count:
        yield section("Score", note="There were no pictures to score.")
    elif report.multi_label:
        yield from _several_labels(report)
    else:
        yield from _one_label(report)
    if report.count and report.looks is not None:
        yield show_looks(report, report.looks)
    if report.interior is not None:
        yield show_interior(report.interior)
    if report.positions is not None:
        yield show_positions(report.positions)
    if report.data is not None:
        yield show_data(report.data, report.labels)
    if report.commands:
        yield show_commands(report.commands)
    if report.configuration:
        yield show_options(report.configuration)


def _one_label(report: ClassificationReport) -> Iterator[Markup]:
    matrix = confusion_matrix(report.truth, report.said, len(report.labels))
    yield show_confusions(matrix, report.labels)
    if (pairs := show_pairs(report, matrix)) is not None:
        yield pairs
    yield show_classes(report.labels, class_scores(report.truth, report.said, len(report.labels)))
    yield show_worst(report)
    yield show_unsure(report)
    yield show_best(report)
    yield show_calibration(calibration(report.probabilities, report.truth), several=False)


def _several_labels(report: ClassificationReport) -> Iterator[Markup]:
    precisions = average_precision(report.probabilities, report.truth)
    yield show_classes(report.labels, label_scores(report.said, report.truth), precisions)
    yield show_worst(report)
    yield show_unsure(report)
    yield show_best(report)
    yield show_calibration(binary_calibration(report.probabilities, report.truth), several=True)
