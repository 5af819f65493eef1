"""report.html of a captioning run: the score, captions to read with where the model looked for each word, and what the run was."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vitrail.data.captions import CaptionedSplit
from vitrail.data.images import PictureError
from vitrail.data.text.batching import pad
from vitrail.data.transforms import normalize, read_fitted, to_unit
from vitrail.explain.captions import look_at_words
from vitrail.explain.figures.captions import CaptionRow, draw_captions
from vitrail.explain.figures.overlay import scale_end, times_even
from vitrail.files import write_whole
from vitrail.rendering import to_svg
from vitrail.report.page import Markup, contents, drawing, element, page, percent, section
from vitrail.report.run_parts import show_commands, show_curves, show_header, show_options
from vitrail.special_tokens import END
from vitrail.tasks.caption import Captions

EACH = 6  # pictures of a kind that are shown


@dataclass(frozen=True, kw_only=True)
class Group:
    """Some pictures under a heading."""

    title: str
    note: str
    rows: Sequence[CaptionRow]


@dataclass(frozen=True, kw_only=True)
class CaptionReport:
    """What the report shows of a run."""

    title: str
    headline: str
    interval: str
    metrics: Mapping[str, float]
    facts: Mapping[str, str]
    history: Sequence[Mapping[str, float | int]]
    found: Captions
    groups: Sequence[Group]
    skipped: str = ""
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, object] = field(default_factory=dict)


def write_caption_report(report: CaptionReport, path: Path) -> None:
    """Write the page. Whoever reads `path` meanwhile sees the old page or the new one, never a part."""
    numbers = {"BLEU": f"{100 * report.metrics['bleu']:.1f}", "loss of a word": f"{report.metrics['loss']:.3f}"}
    if "exact" in report.metrics:
        numbers = {"exactly right": percent(report.metrics["exact"]), **numbers}
    header = show_header(report.title, report.headline, interval=report.interval, numbers=numbers, facts=report.facts)
    sections = list(_sections(report))
    write_whole(path, page(report.title, header, contents(sections), *sections))


def _sections(report: CaptionReport) -> Iterator[Markup]:
    if report.history:
        yield show_curves(report.history)
    if not report.found.captions:
        yield section("Captions", note="There were no pictures to score.")
    highest = common_scale([row for group in report.groups for row in group.rows])
    for group in report.groups:
        figure = drawing(to_svg(draw_captions(group.rows, highest=highest)), "; ".join(row.caption for row in group.rows))
        yield section(group.title, element("div", figure, class_="scroll"), note=group.note)
    if report.skipped:
        yield section("Left out", note=report.skipped)
    if report.commands:
        yield show_commands(report.commands)
    if report.configuration:
        yield show_options(report.configuration)


def common_scale(rows: Sequence[CaptionRow]) -> float:
    return scale_end(np.concatenate([times_even(row.maps).ravel() for row in rows])) if rows else 1.0


def look_at_some(model: Any, split: CaptionedSplit, found: Captions) -> list[Group]:
    """The worst and the best captions by BLEU, or those that are wrong and right, with where the model looked."""
    if not found.captions:
        return []
    how = "Where the model looked for each word: how much of its attention each place had, on one scale for all."
    if found.score == "exact":
        right = found.right.astype(bool)
        wrong = np.flatnonzero(~right)
        yes = rows_of(model, split, found, evenly(np.flatnonzero(right)))
        no = rows_of(model, split, found, evenly(wrong))
        groups = [
            Group(title="Right", note=f"Some of {int(right.sum()):,}. {how}", rows=yes),
            Group(title="Wrong", note=f"{'Some of ' * (len(wrong) > EACH)}{len(wrong):,} of {len(right):,}.", rows=no),
        ]
    else:
        order = np.argsort([-found.agreement.of(np.array([number])) for number in range(len(found.captions))], kind="stable")
        best, worst = order[:EACH], order[EACH:][::-1][:EACH]
        groups = [
            Group(title="Best", note=f"The nearest to what people said. {how}", rows=rows_of(model, split, found, best)),
            Group(title="Worst", note="The farthest from it.", rows=rows_of(model, split, found, worst)),
        ]
    return [group for group in groups if group.rows]


def evenly(numbers: np.ndarray) -> np.ndarray:
    """Some of them, evenly spaced."""
    return (
        numbers[np.unique(np.linspace(0, len(numbers) - 1, min(EACH, len(numbers))).astype(int))] if len(numbers) else numbers
    )


def rows_of(model: Any, split: CaptionedSplit, found: Captions, chosen: np.ndarray) -> list[CaptionRow]:
    """The pictures at these places of what was found. What was said is read again, word by word."""
    numbers, pictures = list[int](), list[np.ndarray]()
    for number in chosen.tolist():
        try:
            pictures.append(read_fitted(split, int(found.indices[number]), model.preprocessing))
        except PictureError:  # gone since it was scored
            continue
        numbers.append(number)
    if not pictures:
        return []
    device = next(model.parameters()).device
    images = normalize(to_unit(np.stack(pictures)), model.preprocessing).to(device)
    ids = pad([[*model.tokenizer.encode(found.captions[number]), END][: model.config.longest - 1] for number in numbers])
    told = look_at_words(model, images, ids.to(device))
    return [
        CaptionRow(
            picture=picture,
            caption=found.captions[number],
            words=one.words,
            maps=one.maps,
            reference="" if found.captions[number] in found.references[number] else " / ".join(found.references[number][:2]),
        )
        for number, picture, one in zip(numbers, pictures, told, strict=True)
    ]
