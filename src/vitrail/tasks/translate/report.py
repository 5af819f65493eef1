"""The report of a translation: how the score depends on length, sentences to read, what the model attends to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vitrail.data.text.parallel import ParallelData
from vitrail.learn.metrics.bleu import LengthGroup
from vitrail.learn.training.state import Row
from vitrail.models.word_model import WordModel
from vitrail.rendering import BLUE, INK, house_style, new_figure, to_svg
from vitrail.report.page import Section, templates_of
from vitrail.report.parts import Drawing
from vitrail.report.words import word_sections
from vitrail.tasks.stages import Scored, Setup
from vitrail.tasks.translate.objective import Translations

EACH = 7  # best and worst sentences; the rest of TWENTY is drawn evenly from all
TWENTY = 20
EDGES = (5, 10, 15, 20, 30, 40)  # words of a source, where a range of lengths ends


def sections(scored: Scored[ParallelData], setup: Setup[Any, ParallelData, Any], rows: Sequence[Row]) -> Iterable[Section]:
    found = scored.evaluation
    assert isinstance(found, Translations)
    yield from sections_of(found, scored.model, skipped=scored.extras or "")


def commands(run: str, model: WordModel) -> Mapping[str, str]:
    """What to do with a run: what it does -> a line for the shell. `run` is quoted."""
    return {
        "Translate": f'vitrail translate {run} "SENTENCE"',
        "Translate a file": f"vitrail translate {run} < SOURCE.txt > TARGET.txt",
        "Score it again": f"vitrail eval {run}",
    }


def sections_of(found: Translations, model: WordModel, *, skipped: str) -> list[Section]:
    """BLEU by length, the best and the worst sentences, alignments and the word-to-word view."""
    scores = [found.bleu.of(np.array([number])) / 100 for number in range(len(found.sources))]
    return [
        *show_lengths(found.by_length(EDGES)),
        show_sentences(found, scores, skipped=skipped),
        *word_sections(model, found.sources, found.hypotheses),
    ]


def show_lengths(lengths: Sequence[LengthGroup]) -> list[Section]:
    if not lengths:
        return []
    note = "BLEU of the sentences of each length, counted in words of the source; above each bar, how many sentences."
    figure = Drawing(to_svg(draw_lengths(lengths)), "BLEU by the length of the source", kind="lengths")
    return [Section("Length", [figure], note=note)]


def show_sentences(found: Translations, scores: Sequence[float], *, skipped: str = "") -> Section:
    """Twenty: the best, the worst, and some of all, evenly chosen; `scores` are the sentences' own."""
    if not found.sources:
        return Section("Sentences", note="There were no sentences to score.")
    order = np.argsort(-np.array(scores), kind="stable").tolist()
    best = order[:EACH]
    worst = [index for index in order[::-1][:EACH] if index not in best]
    rest = [index for index in range(len(order)) if index not in best and index not in worst]
    some = (
        [rest[i] for i in np.unique(np.linspace(0, len(rest) - 1, min(len(rest), TWENTY - 2 * EACH)).astype(int))]
        if rest
        else []
    )
    groups = {
        title: [describe_sentence(found, scores, index) for index in chosen]
        for title, chosen in (("Best", best), ("Worst", worst), ("Some of all", some))
        if chosen
    }
    note = "Each with its source, its reference and what the model wrote; the number is the sentence's own BLEU."
    body = templates_of(__file__).render("sentences.html", groups=groups)
    return Section("Sentences", [body], note=note + (f" {skipped}." if skipped else ""))


def describe_sentence(found: Translations, scores: Sequence[float], index: int) -> dict[str, str]:
    return {
        "source": found.sources[index],
        "reference": found.references[index],
        f"model, {100 * scores[index]:.0f}": found.hypotheses[index] or "–",
    }


def draw_lengths(lengths: Sequence[LengthGroup]) -> Figure:
    """A bar for each range of lengths."""
    with house_style():
        figure = new_figure(6.4, 2.9)
        axes = figure.subplots()
        names = [str(one.shortest) if one.shortest == one.longest else f"{one.shortest}–{one.longest}" for one in lengths]
        bars = axes.bar(names, [one.score for one in lengths], color=BLUE)
        axes.bar_label(bars, [f"{one.sentences:,}" for one in lengths], color=INK, padding=2)
        axes.set_xlabel("words of the source")
        axes.set_ylabel("BLEU")
        axes.margins(y=0.15)
        return figure
