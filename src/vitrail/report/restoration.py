"""report.html of a restoration run: the score, the pictures before and after, every picture's numbers, and what the run was.

A section is a function from the report to markup, none where there is nothing to show; SECTIONS is their order.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path, PurePosixPath

from vitrail.data.degradation import Degradation, parse_degradation
from vitrail.files import write_whole
from vitrail.report.compare import PART, Pane, show_comparison
from vitrail.report.page import Cell, Markup, contents, element, label, page, section, sortable_table
from vitrail.report.run_parts import show_commands, show_curves, show_header, show_options
from vitrail.tasks.restore import CEILING, RestoredExample

MOST = 8  # comparisons: two files each, of bounded size
SEARCHED = 20  # rows from which on the table gets a box to search it


@dataclass(frozen=True, kw_only=True)
class PictureScore:
    """One row of the table, in dB; SSIM where it was measured."""

    name: str
    psnr_given: float
    psnr_restored: float
    ssim_given: float | None = None
    ssim_restored: float | None = None


@dataclass(frozen=True, kw_only=True)
class RestorationReport:
    """What the report shows of a run. `scores`: of every picture, or of the examples alone where it is empty."""

    title: str
    headline: str
    interval: str = ""  # one line under the headline
    numbers: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str]
    history: Sequence[Mapping[str, float | int]]
    examples: Sequence[RestoredExample]
    scores: Sequence[PictureScore] = ()
    degradation: str = ""  # what the pictures suffered, as options name it
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def folders(self) -> int:
        """How many folders, one in the other, all pictures lie in: they are left out of their names."""
        names = [*(one.name for one in self.examples), *(one.name for one in self.scores)]
        places = [PurePosixPath(name).parent.parts for name in names]
        return sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*places, strict=False)))

    def short(self, name: str) -> str:
        return str(PurePosixPath(*PurePosixPath(name).parts[self.folders :])) if self.folders else name

    @property
    def rows(self) -> Sequence[PictureScore]:
        return self.scores or [
            PictureScore(name=one.name, psnr_given=one.psnr_given, psnr_restored=one.psnr_restored)
            for one in self.examples
            if one.truth is not None
        ]


def write_restoration_report(report: RestorationReport, path: Path) -> None:
    """Write the page. Whoever reads `path` meanwhile sees the old page or the new one, never a part."""
    header = show_header(report.title, report.headline, interval=report.interval, numbers=report.numbers, facts=report.facts)
    sections = [made for show in SECTIONS for made in show(report)]
    write_whole(path, page(report.title, header, contents(sections), *sections, parts=(PART,)))


def show_training(report: RestorationReport) -> list[Markup]:
    return [show_curves(report.history)] if report.history else []


def show_pictures(report: RestorationReport) -> list[Markup]:
    """Before and after, the examples in their order."""
    if not report.examples:
        return [section("Pictures", note="There were no pictures to restore.")]
    shown = report.examples[:MOST]
    suffered = ""
    if report.degradation:
        how = parse_degradation(report.degradation)
        suffered = (
            f" What is given is the truth {tell_degradation(how)}{', and enlarged bicubically' if how.scale > 1 else ''}."
        )
    note = f"Drag the line, or move it with the arrow keys: left of it what was given, right of it what the model made of it.{suffered} The squares are exact; large pictures are shrunk and compressed to fit this page."
    if len(shown) < len(report.examples):
        note += f" The first {len(shown)} of {len(report.examples):,} pictures."
    return [
        section(
            "Pictures",
            element("div", *(compare_example(one, report.short(one.name)) for one in shown), class_="comparisons"),
            note=note,
        )
    ]


def compare_example(example: RestoredExample, name: str) -> Markup:
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
        given=Pane(title="given", picture=example.given, note=decibels(example.psnr_given) if known else ""),
        restored=Pane(title="restored", picture=example.restored, note=better if known else ""),
        truth=None if example.truth is None else Pane(title="truth", picture=example.truth),
    )


def show_scores(report: RestorationReport) -> list[Markup]:
    """A row for each picture, the one that gained least first."""
    rows = sorted(report.rows, key=lambda row: (math.isnan(gain_of(row)), gain_of(row)))
    if not rows:
        return []
    similar = any(row.ssim_restored is not None for row in rows)
    head = ["Picture", "given", "restored", "gain", *(["SSIM"] if similar else [])]
    note = "PSNR in dB, the least gained first; a click on a column sorts by it."
    note += " SSIM is of what was restored." if similar else ""
    cells = [_cells(row, report.short(row.name), similar=similar) for row in rows]
    many = "pictures" if len(rows) >= SEARCHED else ""
    shown = element("div", sortable_table(head, cells, ordered=(3, "ascending"), filtered=many), class_="card classes")
    return [section("By picture", shown, note=note)]


def _cells(row: PictureScore, name: str, *, similar: bool) -> list[Cell]:
    gain = gain_of(row)
    found = [
        Cell(label(name), name),
        Cell(decibels(row.psnr_given, unit=""), row.psnr_given),
        Cell(decibels(row.psnr_restored, unit=""), row.psnr_restored),
        Cell("–" if math.isnan(gain) else f"{gain:+.2f}".replace("-", "−"), gain),
    ]
    if similar:
        value = math.nan if row.ssim_restored is None else row.ssim_restored
        found.append(Cell("–" if math.isnan(value) else f"{value:.4f}", value))
    return found


def gain_of(row: PictureScore) -> float:
    """In dB; not a number where a picture came out exactly, given or restored."""
    gain = row.psnr_restored - row.psnr_given
    return gain if math.isfinite(gain) else math.nan


def tell_degradation(how: Degradation) -> str:
    """What was done to a picture, behind "it is the truth"."""
    smaller = f"made {how.scale} times smaller"
    words = {"sr": smaller, "noise": f"with noise of σ {how.strength} of 255", "jpeg": f"as JPEG of quality {how.strength}"}
    worn = "with blur, noise and JPEG of random strength"
    return words.get(how.kind, worn if how.scale == 1 else f"{worn}, {smaller}")


def decibels(value: float, *, unit: str = " dB") -> str:
    """33.66 as "33.66 dB"; a picture that is exactly the truth as ∞."""
    if math.isnan(value):
        return "–"
    return "∞" if value >= CEILING else f"{value:.2f}{unit}".replace("-", "−")


def show_next(report: RestorationReport) -> list[Markup]:
    return [show_commands(report.commands)] if report.commands else []


def show_configuration(report: RestorationReport) -> list[Markup]:
    return [show_options(report.configuration)] if report.configuration else []


SECTIONS: tuple[Callable[[RestorationReport], list[Markup]], ...] = (
    show_pictures, show_scores, show_training, show_next, show_configuration,
)  # fmt: skip
