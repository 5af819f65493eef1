"""report.html of a classification run: score, facts, curves, confusions, mistakes, classes, options and commands."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Integer

from vitrail.files import write_whole
from vitrail.learn.metrics.confusion import confusion_matrix, confusion_shares, frequent_confusions, precision_recall
from vitrail.report.figures import draw_confusion, draw_curves, to_svg
from vitrail.report.matrix import DRAWN_CLASSES, NUMBERED_CLASSES
from vitrail.report.page import (
    Markup,
    bar,
    definitions,
    drawing,
    element,
    join,
    label,
    page,
    percent,
    photograph,
    section,
    table,
)
from vitrail.report.pictures import encode_picture, is_small

MISTAKES, RIGHT_ONES, CONFUSIONS = 24, 8, 12  # at most so many are shown
ROWS, HIDDEN_ROWS = 30, 1000  # of the table of classes: at once, and after a click


@dataclass(frozen=True, kw_only=True)
class ClassificationReport:
    """What the report shows of a run: n test pictures, k classes. `picture` is called only for the pictures shown."""

    title: str
    headline: str
    facts: Mapping[str, str]
    history: Sequence[Mapping[str, float | int]]  # rows of results.csv: epoch train_loss val_loss val_accuracy lr seconds
    labels: tuple[str, ...]
    truth: np.ndarray  # n, integers
    probabilities: np.ndarray  # n k
    picture: Callable[[int], np.ndarray]  # index -> uint8 h w c, c = 1 or 3
    names: Callable[[int], str]  # index -> file name or number
    configuration: Mapping[str, object]
    commands: Mapping[str, str]  # what it does -> command

    def __post_init__(self) -> None:
        expected = (len(self.truth), len(self.labels))
        if self.probabilities.shape != expected:
            raise ValueError(f"probabilities must be pictures x classes, {expected}: got {self.probabilities.shape}")


def write_report(report: ClassificationReport, path: Path) -> None:
    """Write the page. Whoever reads `path` meanwhile sees the old page or the new one, never a part."""
    write_whole(path, page(report.title, *_parts(report)))


def _parts(report: ClassificationReport) -> Iterator[Markup]:
    predicted = np.argmax(report.probabilities, axis=1)
    matrix = confusion_matrix(report.truth, predicted, len(report.labels))
    yield element(
        "header",
        element("div", *(element("span") for _ in range(4)), class_="mark"),
        element("h1", report.title),
        element("p", report.headline, class_="headline"),
        definitions(report.facts, kind="facts"),
    )
    if report.history:
        yield _show_curves(report.history)
    if len(predicted):
        yield _show_confusions(matrix, report.labels)
        yield _show_mistakes(report, predicted)
        yield _show_right_ones(report, predicted)
        yield _show_classes(matrix, report.labels)
    else:
        yield section("Test", note="There were no test pictures.")
    if report.commands:
        blocks = (
            element("div", element("p", what), element("pre", element("code", command)))
            for what, command in report.commands.items()
        )
        yield section("What next", element("div", *blocks, class_="commands"))
    if report.configuration:
        yield section("Options", definitions(dict(_spell("", report.configuration)), kind="options"))


def _show_curves(history: Sequence[Mapping[str, float | int]]) -> Markup:
    panels = (
        drawing(to_svg(draw_curves(history, panels=("loss",))), "training and validation loss over the epochs"),
        drawing(to_svg(draw_curves(history, panels=("accuracy",))), "validation accuracy over the epochs"),
        drawing(to_svg(draw_curves(history, panels=("rate",))), "learning rate over the epochs"),
    )
    return section("Training", element("div", *panels, class_="curves"))


def _show_confusions(matrix: Integer[np.ndarray, "k k"], labels: tuple[str, ...]) -> Markup:
    note = "A row is a true class, a column an answer; the diagonal is right."
    if len(labels) <= NUMBERED_CLASSES:
        note += " The numbers count test pictures."
    if len(labels) > DRAWN_CLASSES:
        note += f" Shown: the {DRAWN_CLASSES} of {len(labels):,} classes with the most mistakes."
    parts = [drawing(to_svg(draw_confusion(matrix, labels)), "confusion matrix", kind="confusion")]
    shares, rows = confusion_shares(matrix), []
    for true, said, count in frequent_confusions(matrix, CONFUSIONS):
        between = element("span", " taken for ", class_="note")
        words = join(label(labels[true], columns=40), between, label(labels[said], columns=40))
        rows.append((words, f"{count:,}", percent(float(shares[true, said]))))
    if rows:
        parts.append(element("div", table(("Most frequent", "pictures", "of class"), rows), class_="card"))
    return section("Confusions", element("div", *parts, class_="beside"), note=note)


def _show_mistakes(report: ClassificationReport, predicted: Integer[np.ndarray, "n"]) -> Markup:
    wrong, total = np.flatnonzero(predicted != report.truth), len(predicted)
    if not len(wrong):
        return section("Mistakes", note=f"None: all {total:,} test pictures were answered rightly.")
    confidence = report.probabilities[wrong, predicted[wrong]]
    first = wrong[np.argsort(-confidence, kind="stable")][:MISTAKES]
    note = f"{len(wrong):,} of {total:,} test pictures; " + (
        "the most confident first." if len(first) == len(wrong) else f"the {MISTAKES} most confident."
    )
    return section("Mistakes", _show_samples(report, predicted, first), note=note)


def _show_right_ones(report: ClassificationReport, predicted: Integer[np.ndarray, "n"]) -> Markup:
    right = np.flatnonzero(predicted == report.truth)
    if not len(right):
        return section("Right answers", note="None.")
    some = np.sort(np.random.default_rng(0).choice(right, size=min(RIGHT_ONES, len(right)), replace=False))
    return section("Right answers", _show_samples(report, predicted, some), note=f"{len(some)} of {len(right):,}, at random.")


def _show_samples(
    report: ClassificationReport, predicted: Integer[np.ndarray, "n"], indices: Integer[np.ndarray, "m"]
) -> Markup:
    return element("div", *(_show_sample(report, int(i), int(predicted[i])) for i in indices), class_="gallery")


def _show_sample(report: ClassificationReport, index: int, said: int) -> Markup:
    """The picture, what was said of it and how surely, and where that is wrong what it is and how sure that was."""
    true, name, picture = int(report.truth[index]), report.names(index), report.picture(index)
    shares = report.probabilities[index]
    wrong = said != true

    def answer(word: str, which: int, kind: str) -> Markup:
        share = element("span", percent(float(shares[which]), digits=0))
        return element("div", share, word, label(report.labels[which], columns=32), class_=f"answer {kind}")

    words = [answer("said ", said, "said"), *([answer("is ", true, "truth")] if wrong else [])]
    image = photograph(encode_picture(picture), f"{name}: {report.labels[true]}", pixelated=is_small(picture))
    caption = element("figcaption", *words, element("span", re.split(r"[/\\]", name)[-1], class_="name", title=name))
    return element("figure", image, caption, class_="sample wrong" if wrong else "sample")


def _show_classes(matrix: Integer[np.ndarray, "k k"], labels: tuple[str, ...]) -> Markup:
    precision, recall = precision_recall(matrix)
    counts, order, note = matrix.sum(axis=1), np.arange(len(labels)), ""
    if len(labels) > ROWS:
        order, note = np.argsort(recall, kind="stable"), "The lowest recall first."  # NaN sorts last
    head = ("Class", "pictures", "precision", "recall")
    rows = [(label(labels[k]), f"{counts[k]:,}", bar(precision[k]), bar(recall[k])) for k in order[: ROWS + HIDDEN_ROWS]]
    parts = [element("div", table(head, rows[:ROWS]), class_="card classes")]
    if len(rows) > ROWS:
        words = f"The next {len(rows) - ROWS:,} of {len(labels):,} classes"
        parts.append(
            element("details", element("summary", words), element("div", table(head, rows[ROWS:]), class_="card classes"))
        )
    note += " Precision: of the pictures called so, the share that are. Recall: of the pictures that are, the share called so."
    return section("Classes", *parts, note=note.strip())


def _spell(prefix: str, options: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Options as words: nested ones under dotted names, no value as a dash."""
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from _spell(f"{prefix}{key}.", value)
        elif isinstance(value, list | tuple):
            yield f"{prefix}{key}", ", ".join(map(str, value)) or "–"
        elif isinstance(value, bool):
            yield f"{prefix}{key}", "true" if value else "false"
        else:
            yield f"{prefix}{key}", "–" if value is None or value == "" else str(value)
