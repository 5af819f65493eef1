"""What is taken for what: the matrix, the most frequent mistakes, and pictures of the most confused pairs.

k classes
"""

import numpy as np
from jaxtyping import Integer

from vitrail.learn.metrics.confusion import confusion_shares, frequent_confusions
from vitrail.report.contents import ClassificationReport, highest
from vitrail.report.figures import draw_confusion, to_svg
from vitrail.report.matrix import DRAWN_CLASSES, NUMBERED_CLASSES
from vitrail.report.page import Markup, drawing, element, join, label, percent, section, table
from vitrail.report.samples import show_picture

CONFUSIONS, PAIRS, EXAMPLES = 12, 6, 2  # rows of the table, pairs with pictures, wrong pictures of a pair


def show_confusions(matrix: Integer[np.ndarray, "k k"], labels: tuple[str, ...]) -> Markup:
    note = "A row is a true class, a column an answer; the diagonal is right."
    if len(labels) <= NUMBERED_CLASSES:
        note += " The numbers count pictures."
    if len(labels) > DRAWN_CLASSES:
        note += f" Shown: the {DRAWN_CLASSES} of {len(labels):,} classes with the most mistakes."
    parts = [drawing(to_svg(draw_confusion(matrix, labels)), "confusion matrix", kind="confusion")]
    shares, rows = confusion_shares(matrix), []
    for true, said, count in frequent_confusions(matrix, CONFUSIONS):
        rows.append((_pair(labels, true, said), f"{count:,}", percent(float(shares[true, said]))))
    if rows:
        parts.append(element("div", table(("Most frequent", "pictures", "of class"), rows), class_="card"))
    return section("Confusions", element("div", *parts, class_="beside"), note=note)


def _pair(labels: tuple[str, ...], true: int, said: int) -> Markup:
    between = element("span", " taken for ", class_="note")
    return join(label(labels[true], columns=40), between, label(labels[said], columns=40))


def show_pairs(report: ClassificationReport, matrix: Integer[np.ndarray, "k k"]) -> Markup | None:
    """Wrongly answered pictures of each frequent confusion, between a typical picture of the one class and of the other."""
    pairs = frequent_confusions(matrix, PAIRS)
    if not pairs:
        return None
    cards = (_show_pair(report, true, said, count, float(matrix[true].sum())) for true, said, count in pairs)
    note = "Mistaken pictures, the surest first, between the most confident right answer of the one class and of the other."
    return section("Most confused", element("div", *cards, class_="pairs"), note=note)


def _show_pair(report: ClassificationReport, true: int, said: int, count: int, whole: float) -> Markup:
    mistaken = highest(report.confidence, (report.truth == true) & (report.said == said), EXAMPLES)
    shown = [_typical(report, true), *(_mistaken(report, int(index)) for index in mistaken), _typical(report, said)]
    words = element(
        "p", f"{count:,} picture{'s' if count > 1 else ''}, {percent(count / whole, digits=0)} of its class", class_="note"
    )
    head = element("h3", _pair(report.labels, true, said))
    return element("div", head, words, element("div", *shown, class_="strip"), class_="card pair")


def _typical(report: ClassificationReport, which: int) -> Markup:
    """The most confident right answer of a class."""
    found = highest(report.confidence, (report.truth == which) & ~report.wrong, 1)
    words = element("figcaption", label(report.labels[which], columns=24))
    if not len(found):
        return element("figure", element("div", "none was right", class_="gone"), words, class_="sample typical")
    return element("figure", show_picture(report, int(found[0])), words, class_="sample typical")


def _mistaken(report: ClassificationReport, index: int) -> Markup:
    sure = percent(float(report.confidence[index]), digits=0)
    words = element("figcaption", element("div", f"{sure} sure", class_="said"))
    return element("figure", show_picture(report, index), words, class_="sample wrong")
