"""What `vitrail cascade` found: its table, the curve of cost against agreement and accuracy, and report.html."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from vitrail.rendering import BLUE, ORANGE, house_style, new_figure, rule, to_svg
from vitrail.report.frame import Frame, write_page
from vitrail.report.page import Section
from vitrail.report.parts import Drawing, Table, percent


class Point(NamedTuple):
    """A cascade on some images. `cost` is a share of the last model's."""

    cost: float
    agreement: float
    accuracy: float


class StageRow(NamedTuple):
    """A stage on the test images; None where it answers none."""

    name: str
    threshold: float | None
    share: float
    accuracy: float | None  # of what it answers
    agreement: float | None  # with the last, of what it answers
    cost: float  # of one image
    alone: float  # accuracy of its model on all images


@dataclass(frozen=True, kw_only=True)
class CascadePage:
    """What the page shows."""

    title: str
    headline: str
    against: str
    unit: str  # of costs
    stages: Sequence[StageRow]
    curve: Sequence[Point]  # on validation, from the dearest to the cheapest
    chosen: Point  # on validation
    test: Point
    details: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)


def stage_table(stages: Sequence[StageRow], unit: str) -> tuple[list[str], list[list[str]]]:
    """Names of the columns, and one row per stage."""
    head = ["stage", "answers if", "of test", "right there", "agrees there", f"{unit} an image", "right alone"]
    rows = [
        [
            stage.name,
            "whatever is left" if stage.threshold is None else "never" if stage.threshold > 1 else f"≥ {stage.threshold:.4f}",
            percent(stage.share, digits=2),
            "–" if stage.accuracy is None else percent(stage.accuracy, digits=2),
            "–" if stage.agreement is None else percent(stage.agreement, digits=2),
            f"{stage.cost:.3g}",
            percent(stage.alone, digits=2),
        ]
        for stage in stages
    ]
    return head, rows


def draw_cascade(curve: Sequence[Point], chosen: Point, test: Point) -> Figure:
    """Agreement and accuracy over the cost as the thresholds move, on validation; the chosen point, and the same cascade on test."""
    with house_style():
        figure = new_figure(8.4, 3.2)
        panels = figure.subplots(1, 2, squeeze=False)[0]
        for axes, name in zip(panels, ("agreement", "accuracy"), strict=True):
            axes.set_title("Agreement with the last model" if name == "agreement" else "Right answers", loc="left")
            axes.set_xlabel("cost, as a share of the last model's")
            rule(axes)
            axes.plot([point.cost for point in curve], [getattr(point, name) for point in curve], color=BLUE)
            axes.plot(chosen.cost, getattr(chosen, name), "o", color=BLUE, markersize=6)
            axes.plot(test.cost, getattr(test, name), "D", color=ORANGE, markersize=5)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
            axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=(1, 2, 5, 10)))
            axes.set_xlim(left=0)
            axes.legend(
                axes.lines, ["validation, thresholds moving", "chosen", "test"], loc="lower right", labelcolor="linecolor"
            )
        return figure


def write_cascade_report(report: CascadePage, path: Path) -> None:
    svg = to_svg(draw_cascade(report.curve, report.chosen, report.test))
    sections = [
        Section(
            "Stages",
            [Table(*stage_table(report.stages, report.unit))],
            note="Who answers the test images, how often it is right and agrees with the last model there, and how often each model alone is "
            "right on all of them.",
        ),
        Section(
            "Cost",
            [Drawing(svg, "agreement and accuracy over the cost of a cascade")],
            note="The thresholds were chosen on validation; test was read once, with what had been chosen.",
        ),
    ]
    frame = Frame(
        title=report.title, headline=report.headline, certainty=report.against, details=report.details, commands=report.commands
    )
    write_page(path, frame, sections)
