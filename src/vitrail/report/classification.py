"""report.html of a classification run, in the order people ask: the score, what goes wrong, why, the data, the options."""

from collections.abc import Iterator
from pathlib import Path

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
from vitrail.report.page import Markup, contents, page, section
from vitrail.report.positions import show_positions
from vitrail.report.reliability import show_calibration
from vitrail.report.run_parts import show_commands, show_curves, show_header, show_options
from vitrail.report.samples import show_best, show_unsure, show_worst

__all__ = ["ClassificationReport", "write_report"]


def write_report(report: ClassificationReport, path: Path) -> None:
    """Write the page. Whoever reads `path` meanwhile sees the old page or the new one, never a part."""
    sections = list(_sections(report))
    write_whole(path, page(report.title, _header(report), contents(sections), *sections))


def _header(report: ClassificationReport) -> Markup:
    return show_header(report.title, report.headline, interval=report.certainty, numbers=report.numbers, facts=report.facts)


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
