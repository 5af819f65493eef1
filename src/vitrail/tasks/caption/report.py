"""The report of a captioner: captions to read, with where the model looked for each word."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vitrail.data.captions import CaptionData, CaptionedSplit
from vitrail.data.images import ImageError
from vitrail.data.text.padding import pad
from vitrail.data.transforms import normalize, read_fitted, to_unit
from vitrail.explain.captions import look_at_words
from vitrail.explain.figures.captions import CaptionRow, draw_captions
from vitrail.explain.figures.overlay import scale_end, times_even
from vitrail.learn.training.state import Row
from vitrail.models.captioner import CaptionModel
from vitrail.rendering import to_svg
from vitrail.report.page import Section
from vitrail.report.parts import Drawing
from vitrail.special_tokens import END
from vitrail.tasks.caption.objective import Captions
from vitrail.tasks.stages import Scored, Setup

EACH = 6  # images of a kind that are shown


@dataclass(frozen=True, kw_only=True)
class Group:
    """Some images under a heading."""

    title: str
    note: str
    rows: Sequence[CaptionRow]


def sections(scored: Scored[CaptionData], setup: Setup[Any, CaptionData, Any], rows: Sequence[Row]) -> Iterable[Section]:
    found = scored.evaluation
    assert isinstance(found, Captions)
    groups = look_at_some(scored.model, scored.data[scored.split], found)
    yield from show_groups(found, groups, skipped=str(scored.data.skipped))


def commands(run: str, model: CaptionModel) -> Mapping[str, str]:
    """What to do with a run: what it does -> a line for the shell. `run` is quoted."""
    return {
        "Say what is in images": f"vitrail caption {run} IMAGE...",
        "See where it looks for each word": f"vitrail caption {run} IMAGE... --out DIR",
        "Score it again": f"vitrail eval {run}",
    }


def show_groups(found: Captions, groups: Sequence[Group], *, skipped: str) -> Iterator[Section]:
    if not found.captions:
        yield Section("Captions", note="There were no images to score.")
    highest = common_scale([row for group in groups for row in group.rows])
    for group in groups:
        svg = to_svg(draw_captions(group.rows, highest=highest))
        figure = Drawing(svg, "; ".join(row.caption for row in group.rows))
        yield Section(group.title, [figure], note=group.note)
    if skipped:
        yield Section("Left out", note=skipped)


def common_scale(rows: Sequence[CaptionRow]) -> float:
    return scale_end(np.concatenate([times_even(row.maps).ravel() for row in rows])) if rows else 1.0


def look_at_some(model: CaptionModel, split: CaptionedSplit, found: Captions) -> list[Group]:
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


def rows_of(model: CaptionModel, split: CaptionedSplit, found: Captions, chosen: np.ndarray) -> list[CaptionRow]:
    """The images of these numbers. The captions are read again, word by word."""
    numbers, shown = list[int](), list[np.ndarray]()
    for number in chosen.tolist():
        try:
            shown.append(read_fitted(split, int(found.indices[number]), model.preprocessing))
        except ImageError:  # gone since it was scored
            continue
        numbers.append(number)
    if not shown:
        return []
    device = next(model.parameters()).device
    images = normalize(to_unit(np.stack(shown)), model.preprocessing).to(device)
    ids = pad([[*model.tokenizer.encode(found.captions[number]), END][: model.config.longest - 1] for number in numbers])
    looks = look_at_words(model, images, ids.to(device))
    return [
        CaptionRow(
            image=image,
            caption=found.captions[number],
            words=one.words,
            maps=one.maps,
            reference="" if found.captions[number] in found.references[number] else " / ".join(found.references[number][:2]),
        )
        for number, image, one in zip(numbers, shown, looks, strict=True)
    ]
