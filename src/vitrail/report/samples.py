"""Pictures with what was said of them: single cards, galleries, and the sections that show the worst and the best."""

import re

import numpy as np
from jaxtyping import Integer

from vitrail.data.images import PictureError
from vitrail.report.contents import ClassificationReport, highest
from vitrail.report.page import Markup, element, label, percent, photograph, section
from vitrail.report.pictures import encode_picture, is_small

WORST, UNSURE, BEST = 24, 8, 8  # at most so many are shown
LABELS = 4  # of a picture that has several


def show_worst(report: ClassificationReport) -> Markup:
    """The mistakes, the highest loss first."""
    wrong, total = int(report.wrong.sum()), report.count
    if not wrong:
        return section("Mistakes", note=f"None: all {total:,} pictures were answered rightly.")
    shown = highest(report.losses, report.wrong, WORST)
    how = "the highest loss first" if len(shown) == wrong else f"the {len(shown)} with the highest loss"
    return section("Mistakes", show_gallery(report, shown), note=f"{wrong:,} of {total:,} pictures; {how}.")


def show_unsure(report: ClassificationReport) -> Markup:
    """What is nearly a guess, right or wrong."""
    shown = highest(-report.confidence, np.ones(report.count, dtype=bool), UNSURE)
    return section("Least sure", show_gallery(report, shown), note="The lowest confidence of all, right or wrong.")


def show_best(report: ClassificationReport) -> Markup:
    """Right, and the lowest loss."""
    right = report.count - int(report.wrong.sum())
    if not right:
        return section("Best", note="No picture was answered rightly.")
    shown = highest(-report.losses, ~report.wrong, BEST)
    return section("Best", show_gallery(report, shown), note=f"The surest of {right:,} right answers.")


def show_gallery(report: ClassificationReport, indices: Integer[np.ndarray, "m"]) -> Markup:
    return element("div", *(show_sample(report, int(index)) for index in indices), class_="gallery")


def show_sample(report: ClassificationReport, index: int) -> Markup:
    """The picture, what was said of it and how surely, and where that is wrong what it is and how sure that was."""
    kind = "sample wrong" if report.wrong[index] else "sample"
    return element("figure", show_picture(report, index), caption(report, index), class_=kind)


def show_picture(report: ClassificationReport, index: int) -> Markup:
    name = report.names(index)
    try:
        picture = report.picture(index)
    except PictureError:  # it could be read when it was scored; a run is not lost for it
        return element("div", "no longer there", class_="gone")
    return photograph(encode_picture(picture), f"{name}: {describe_truth(report, index)}", pixelated=is_small(picture))


def describe_truth(report: ClassificationReport, index: int) -> str:
    if not report.multi_label:
        return report.labels[int(report.truth[index])]
    return ", ".join(report.labels[k] for k in np.flatnonzero(report.truth[index])) or "no label"


def caption(report: ClassificationReport, index: int) -> Markup:
    lines = _several_answers(report, index) if report.multi_label else _one_answer(report, index)
    name = report.names(index)
    return element("figcaption", *lines, element("span", re.split(r"[/\\]", name)[-1], class_="name", title=name))


def answer(report: ClassificationReport, index: int, word: str, which: int, kind: str) -> Markup:
    """One line: the label, what it is to the picture, and its probability."""
    share = element("span", percent(float(report.probabilities[index, which]), digits=0))
    return element("div", share, word, label(report.labels[which], columns=32), class_=f"answer {kind}")


def _one_answer(report: ClassificationReport, index: int) -> list[Markup]:
    said, true = int(report.said[index]), int(report.truth[index])
    lines = [answer(report, index, "said ", said, "said")]
    return lines if said == true else [*lines, answer(report, index, "is ", true, "truth")]


def _several_answers(report: ClassificationReport, index: int) -> list[Markup]:
    """False labels, then missed ones, then right ones; the first few."""
    said, true = report.said[index], report.truth[index]
    groups = (("false ", said & ~true, "false"), ("missed ", true & ~said, "missed"), ("right ", said & true, "right"))
    lines = [answer(report, index, word, int(k), kind) for word, which, kind in groups for k in np.flatnonzero(which)]
    if not lines:
        return [element("div", "no label, rightly", class_="answer right")]
    rest = len(lines) - LABELS
    return lines if rest <= 0 else [*lines[:LABELS], element("div", f"and {rest} more", class_="answer note")]
