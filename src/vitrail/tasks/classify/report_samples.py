"""Images with what was predicted for them: the most confused pairs of classes, the worst, the least sure, the best, and where it looks."""

import re
from typing import NamedTuple

import numpy as np
from jaxtyping import Integer
from markupsafe import Markup

from vitrail.data.images import ImageError
from vitrail.explain.figures.overlay import overlay
from vitrail.learn.metrics.confusion import frequent_confusions
from vitrail.report.images import LARGEST, encode_image, is_small, share_scale
from vitrail.report.page import Section, templates_of
from vitrail.report.parts import Confused, Label, Photograph, percent
from vitrail.tasks.classify.classified import Classified, highest
from vitrail.tasks.classify.report_attention import Looks

WORST, UNSURE, BEST = 24, 8, 8  # at most so many are shown
LABELS = 4  # of an image that has several
PAIRS, EXAMPLES = 6, 2  # pairs of classes, wrong images of a pair
BOLD = " In bold: the predicted class."


class Answer(NamedTuple):
    """One line: what a label is to the image, the label, and its probability."""

    kind: str
    word: str
    label: Label | None = None
    share: str = ""


class Sample(NamedTuple):
    """An image with its lines; None where it is gone."""

    image: Photograph | None
    wrong: bool
    answers: list[Answer]
    name: str
    map: Photograph | None = None  # where the model looks

    @property
    def file_name(self) -> str:
        """Without its folders."""
        return re.split(r"[/\\]", self.name)[-1]


class Typical(NamedTuple):
    """The most confident right prediction of a class, if there is one."""

    label: Label
    right: bool
    image: Photograph | None


class Pair(NamedTuple):
    """A frequent confusion: mistaken images, the surest first, between typical ones of both classes."""

    title: Confused
    words: str
    true: Typical
    predicted: Typical
    mistaken: list[tuple[Photograph | None, str]]


def show_pairs(shown: Classified, matrix: Integer[np.ndarray, "k k"]) -> list[Section]:
    """Wrongly predicted images of each frequent confusion, between a typical image of the one class and of the other."""
    pairs = [describe_pair(shown, *pair, float(matrix[pair[0]].sum())) for pair in frequent_confusions(matrix, PAIRS)]
    if not pairs:
        return []
    note = "Mistaken images, the surest first, between the most confident correct prediction of the one class and of the other."
    return [Section("Most confused", [templates_of(__file__).render("pairs.html", pairs=pairs)], note=note)]


def describe_pair(shown: Classified, true: int, predicted: int, count: int, whole: float) -> Pair:
    chosen = highest(shown.confidence, (shown.targets == true) & (shown.predicted == predicted), EXAMPLES)
    first = find_typical(shown, true)
    mistaken = [(find_image(shown, int(one)), percent(float(shown.confidence[one]), digits=0)) for one in chosen]
    words = f"{count:,} image{'s' if count > 1 else ''}, {percent(count / whole, digits=0)} of its class"
    title = Confused.of(shown.labels[true], shown.labels[predicted])
    return Pair(title, words, first, find_typical(shown, predicted), mistaken)


def find_typical(shown: Classified, which: int) -> Typical:
    found = highest(shown.confidence, (shown.targets == which) & ~shown.wrong, 1)
    image = find_image(shown, int(found[0])) if len(found) else None
    return Typical(Label(shown.labels[which], columns=24), bool(len(found)), image)


def show_worst(shown: Classified) -> Section:
    """The mistakes, the highest loss first."""
    wrong, total = int(shown.wrong.sum()), shown.count
    if not wrong:
        return Section("Mistakes", note=f"None: all {total:,} images were classified correctly.")
    some = highest(shown.losses, shown.wrong, WORST)
    how = "the highest loss first" if len(some) == wrong else f"the {len(some)} with the highest loss"
    return Section("Mistakes", [show_gallery(shown, some)], note=f"{wrong:,} of {total:,} images; {how}.{explain_bold(shown)}")


def explain_bold(shown: Classified) -> str:
    """Images of several labels have a word before each."""
    return "" if shown.multi_label else BOLD


def show_unsure(shown: Classified) -> Section:
    """What is nearly a guess, right or wrong."""
    some = highest(-shown.confidence, np.ones(shown.count, dtype=bool), UNSURE)
    return Section(
        "Least sure", [show_gallery(shown, some)], note=f"The lowest confidence of all, correct or not.{explain_bold(shown)}"
    )


def show_best(shown: Classified) -> Section:
    """Right, and the lowest loss."""
    right = shown.count - int(shown.wrong.sum())
    if not right:
        return Section("Best", note="No image was classified correctly.")
    some = highest(-shown.losses, ~shown.wrong, BEST)
    return Section("Best", [show_gallery(shown, some)], note=f"The surest of {right:,} correct predictions.")


def show_gallery(shown: Classified, indices: Integer[np.ndarray, "m"]) -> Markup:
    samples = [describe_sample(shown, int(index)) for index in indices]
    return templates_of(__file__).render("gallery.html", samples=samples)


def show_looks(shown: Classified, looks: Looks | str) -> Section:
    """Where the model looks, image by image, on one scale."""
    title = "Where it looks"
    if isinstance(looks, str):
        return Section(title, note=f"Not shown: {looks}.")
    samples = [describe_look(shown, looks, number) for number in range(len(looks.indices))]
    note = (
        f"Shown: {looks.words}. Interpolated between the {looks.maps.shape[1]}×{looks.maps.shape[2]} patches; all on one scale."
    )
    body = templates_of(__file__).render("looks.html", samples=samples)
    return Section(title, [share_scale(looks.highest), body], note=note)


def describe_look(shown: Classified, looks: Looks, number: int) -> Sample:
    sample, index = describe_sample(shown, int(looks.indices[number])), int(looks.indices[number])
    if sample.image is None:
        return sample
    map_over = overlay(shown.image(index), looks.maps[number], looks.highest, largest=LARGEST)
    return sample._replace(map=Photograph(encode_image(map_over), "where the model looks"))


def describe_sample(shown: Classified, index: int) -> Sample:
    """The image, what was predicted and how surely, and where that is wrong what it is and how sure that was."""
    answers = several_answers(shown, index) if shown.multi_label else one_answer(shown, index)
    return Sample(find_image(shown, index), bool(shown.wrong[index]), answers, shown.names(index))


def find_image(shown: Classified, index: int) -> Photograph | None:
    try:
        image = shown.image(index)
    except ImageError:  # it could be read when it was scored; a run is not lost for it
        return None
    return Photograph(encode_image(image), f"{shown.names(index)}: {describe_target(shown, index)}", pixelated=is_small(image))


def describe_target(shown: Classified, index: int) -> str:
    if not shown.multi_label:
        return shown.labels[int(shown.targets[index])]
    return ", ".join(shown.labels[k] for k in np.flatnonzero(shown.targets[index])) or "no label"


def answer(shown: Classified, index: int, word: str, which: int, kind: str) -> Answer:
    share = percent(float(shown.probabilities[index, which]), digits=0)
    return Answer(kind, word, Label(shown.labels[which], columns=32), share)


def one_answer(shown: Classified, index: int) -> list[Answer]:
    predicted, true = int(shown.predicted[index]), int(shown.targets[index])
    lines = [answer(shown, index, "", predicted, "said")]
    return lines if predicted == true else [*lines, answer(shown, index, "true ", true, "truth")]


def several_answers(shown: Classified, index: int) -> list[Answer]:
    """False labels, then missed ones, then right ones; the first few."""
    said, true = shown.predicted[index], shown.targets[index]
    groups = (("false ", said & ~true, "false"), ("missed ", true & ~said, "missed"), ("correct ", said & true, "right"))
    lines = [answer(shown, index, word, int(k), kind) for word, which, kind in groups for k in np.flatnonzero(which)]
    if not lines:
        return [Answer("right", "no label, correct")]
    rest = len(lines) - LABELS
    return lines if rest <= 0 else [*lines[:LABELS], Answer("note", f"and {rest} more")]
