"""report.html of a translation run: the score, how it depends on length, sentences to read, and what the run was.

A section is a function from the report to markup, or None where there is nothing to show; SECTIONS is their order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from vitrail.files import write_whole
from vitrail.learn.metrics.bleu import LengthGroup
from vitrail.rendering import BLUE, INK, house_style, to_svg
from vitrail.report.page import Markup, contents, drawing, element, page, section
from vitrail.report.run_parts import show_commands, show_curves, show_header, show_options

EACH = 7  # best and worst sentences; the rest of TWENTY is drawn evenly from all
TWENTY = 20


@dataclass(frozen=True, kw_only=True)
class TranslationReport:
    """What the report shows of a run. `scores`: of each sentence, to choose the best and the worst by."""

    title: str
    headline: str
    signature: str = ""
    facts: Mapping[str, str]
    history: Sequence[Mapping[str, float | int]]
    sources: Sequence[str]
    references: Sequence[str]
    hypotheses: Sequence[str]
    scores: Sequence[float]
    lengths: Sequence[LengthGroup] = ()
    skipped: str = ""
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, object] = field(default_factory=dict)
    more: Sequence[Markup] = ()  # sections that others have made, behind the sentences


def write_translation_report(report: TranslationReport, path: Path) -> None:
    """Write the page. Whoever reads `path` meanwhile sees the old page or the new one, never a part."""
    header = show_header(report.title, report.headline, interval=report.signature, numbers={}, facts=report.facts)
    sections = [made for show in SECTIONS for made in show(report)]
    write_whole(path, page(report.title, header, contents(sections), *sections))


def show_training(report: TranslationReport) -> list[Markup]:
    return [show_curves(report.history)] if report.history else []


def show_lengths(report: TranslationReport) -> list[Markup]:
    if not report.lengths:
        return []
    note = "BLEU of the sentences of each length, counted in words of the source; above each bar, how many sentences."
    figure = drawing(to_svg(draw_lengths(report.lengths)), "BLEU by the length of the source", kind="lengths")
    return [section("Length", figure, note=note)]


def show_sentences(report: TranslationReport) -> list[Markup]:
    """Twenty: the best, the worst, and some of all, evenly chosen."""
    if not report.sources:
        return [section("Sentences", note="There were no sentences to score.")]
    order = np.argsort(-np.array(report.scores), kind="stable").tolist()
    best = order[:EACH]
    worst = [index for index in order[::-1][:EACH] if index not in best]
    rest = [index for index in range(len(order)) if index not in best and index not in worst]
    some = (
        [rest[i] for i in np.unique(np.linspace(0, len(rest) - 1, min(len(rest), TWENTY - 2 * EACH)).astype(int))]
        if rest
        else []
    )
    parts = [
        element("div", element("h3", title), *(_sentence(report, index) for index in chosen), class_="sentences")
        for title, chosen in (("Best", best), ("Worst", worst), ("Some of all", some))
        if chosen
    ]
    note = "Each with its source, its reference and what the model wrote; the number is the sentence's own BLEU."
    return [section("Sentences", *parts, note=note + (f" {report.skipped}." if report.skipped else ""))]


def _sentence(report: TranslationReport, index: int) -> Markup:
    rows = {
        "source": report.sources[index],
        "reference": report.references[index],
        f"model, {100 * report.scores[index]:.0f}": report.hypotheses[index] or "–",
    }
    return element(
        "dl", *(element("div", element("dt", k), element("dd", element("bdi", v))) for k, v in rows.items()), class_="sentence"
    )


def show_others(report: TranslationReport) -> list[Markup]:
    return list(report.more)


def show_next(report: TranslationReport) -> list[Markup]:
    return [show_commands(report.commands)] if report.commands else []


def show_configuration(report: TranslationReport) -> list[Markup]:
    return [show_options(report.configuration)] if report.configuration else []


SECTIONS: tuple[Callable[[TranslationReport], list[Markup]], ...] = (
    show_training, show_lengths, show_sentences, show_others, show_next, show_configuration,
)  # fmt: skip


def draw_lengths(lengths: Sequence[LengthGroup]) -> Figure:
    """A bar for each range of lengths."""
    with house_style():
        figure = Figure(figsize=(6.4, 2.9), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
        axes = figure.subplots()
        names = [str(one.shortest) if one.shortest == one.longest else f"{one.shortest}–{one.longest}" for one in lengths]
        bars = axes.bar(names, [one.score for one in lengths], color=BLUE)
        axes.bar_label(bars, [f"{one.sentences:,}" for one in lengths], color=INK, padding=2)
        axes.set_xlabel("words of the source")
        axes.set_ylabel("BLEU")
        axes.margins(y=0.15)
        return figure
