"""The report of a restorer: images before and after, and the numbers of each."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any

from vitrail.data.dataset import DataSet
from vitrail.data.degradation import describe_degradation, parse_degradation
from vitrail.learn.metrics.restoration import CEILING
from vitrail.learn.training.state import Row
from vitrail.models.restorer import Restorer
from vitrail.report.compare import PART, Pane, show_comparison, show_comparisons
from vitrail.report.page import Content, Section
from vitrail.report.parts import Cell, Label, SortableTable
from vitrail.tasks.restore.objective import Restorations, RestoredExample
from vitrail.tasks.stages import Scored, Setup

MOST = 8  # comparisons: two files each, of bounded size
SEARCHED = 20  # rows from which on the table gets a box to search it


def sections(scored: Scored[DataSet], setup: Setup[Any, DataSet, None], rows: Sequence[Row]) -> Iterable[Section]:
    found, images = scored.evaluation, scored.data.splits[scored.split]  # type: ignore[index]
    assert isinstance(found, Restorations)
    scores = [
        ImageScore(name=images.name(index), psnr_restored=row[1], ssim_restored=row[2], psnr_given=row[3], ssim_given=row[4])
        for index, row in zip(found.indices.tolist(), found.rows.tolist(), strict=True)
    ]
    yield from restoration_sections(
        RestorationReport(examples=found.examples, scores=scores, degradation=str(setup.options.degrade))
    )


def commands(run: str, model: Restorer) -> Mapping[str, str]:
    """What to do with a run: what it does -> a line for the shell. `run` is quoted."""
    return {
        "Restore images": f"vitrail restore {run} IMAGE... --out DIR",
        "Score it on other images": f"vitrail eval {run} --data FOLDER",
    }


@dataclass(frozen=True, kw_only=True)
class ImageScore:
    """One row of the table, in dB; SSIM where it was measured."""

    name: str
    psnr_given: float
    psnr_restored: float
    ssim_given: float | None = None
    ssim_restored: float | None = None


@dataclass(frozen=True, kw_only=True)
class RestorationReport:
    """What the report shows of images. `scores`: of every image, or of the examples alone where it is empty."""

    examples: Sequence[RestoredExample]
    scores: Sequence[ImageScore] = ()
    degradation: str = ""  # what the images suffered, as options name it

    @cached_property
    def folders(self) -> int:
        """How many folders, one in the other, all images lie in: they are left out of their names."""
        names = [*(one.name for one in self.examples), *(one.name for one in self.scores)]
        places = [PurePosixPath(name).parent.parts for name in names]
        return sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*places, strict=False)))

    def short(self, name: str) -> str:
        return str(PurePosixPath(*PurePosixPath(name).parts[self.folders :])) if self.folders else name

    @property
    def rows(self) -> Sequence[ImageScore]:
        return self.scores or [
            ImageScore(name=one.name, psnr_given=one.psnr_given, psnr_restored=one.psnr_restored)
            for one in self.examples
            if one.truth is not None
        ]


def restoration_sections(report: RestorationReport) -> list[Section]:
    """Images and scores, before the curves of training."""
    return [*show_images(report), *show_scores(report)]


def show_images(report: RestorationReport) -> list[Section]:
    """Before and after, the examples in their order."""
    if not report.examples:
        return [Section("Images", note="There were no images to restore.", first=True)]
    shown = report.examples[:MOST]
    suffered = ""
    if report.degradation:
        how = parse_degradation(report.degradation)
        suffered = (
            f" What is given is the truth {describe_degradation(how)}{', and enlarged bicubically' if how.scale > 1 else ''}."
        )
    note = f"Drag the line, or move it with the arrow keys: left of it what was given, right of it what the model made of it.{suffered} The squares are exact; large images are shrunk and compressed to fit this page."
    if len(shown) < len(report.examples):
        note += f" The first {len(shown)} of {len(report.examples):,} images."
    comparisons = show_comparisons([compare_example(one, report.short(one.name)) for one in shown])
    return [Section("Images", [comparisons], note=note, first=True, needs=(PART,))]


def compare_example(example: RestoredExample, name: str) -> Content:
    """Given, restored and, where there is one, the truth; PSNR beneath."""
    gain = example.psnr_restored - example.psnr_given
    better = (
        f"{decibels(example.psnr_restored)}, {gain:+.2f} dB".replace("-", "−")
        if math.isfinite(gain)
        else decibels(example.psnr_restored)
    )
    better = better.replace(" dB", "\u00a0dB")  # a number and its unit stay on one line
    known = example.truth is not None
    return show_comparison(
        name,
        given=Pane(title="given", image=example.given, note=decibels(example.psnr_given) if known else ""),
        restored=Pane(title="restored", image=example.restored, note=better if known else ""),
        truth=None if example.truth is None else Pane(title="truth", image=example.truth),
    )


def show_scores(report: RestorationReport) -> list[Section]:
    """A row for each image, the one that gained least first."""
    rows = sorted(report.rows, key=lambda row: (math.isnan(gain_of(row)), gain_of(row)))
    if not rows:
        return []
    similar = any(row.ssim_restored is not None for row in rows)
    head = ["Image", "given", "restored", "gain", *(["SSIM"] if similar else [])]
    note = "PSNR in dB, the least gained first; a click on a column sorts by it."
    note += " SSIM is of what was restored." if similar else ""
    cells = [_cells(row, report.short(row.name), similar=similar) for row in rows]
    many = "images" if len(rows) >= SEARCHED else ""
    shown = SortableTable(head, cells, ordered=(3, "ascending"), filtered=many, card="card classes")
    return [Section("By image", [shown], note=note, first=True)]


def _cells(row: ImageScore, name: str, *, similar: bool) -> list[Cell]:
    gain = gain_of(row)
    found = [
        Cell(Label(name), name),
        Cell(decibels(row.psnr_given, unit=""), row.psnr_given),
        Cell(decibels(row.psnr_restored, unit=""), row.psnr_restored),
        Cell("–" if math.isnan(gain) else f"{gain:+.2f}".replace("-", "−"), gain),
    ]
    if similar:
        value = math.nan if row.ssim_restored is None else row.ssim_restored
        found.append(Cell("–" if math.isnan(value) else f"{value:.4f}", value))
    return found


def gain_of(row: ImageScore) -> float:
    """In dB; not a number where an image came out exactly, given or restored."""
    gain = row.psnr_restored - row.psnr_given
    return gain if math.isfinite(gain) else math.nan


def decibels(value: float, *, unit: str = " dB") -> str:
    """33.66 as "33.66 dB"; an image that is exactly the truth as ∞."""
    if math.isnan(value):
        return "–"
    return "∞" if value >= CEILING else f"{value:.2f}{unit}".replace("-", "−")
