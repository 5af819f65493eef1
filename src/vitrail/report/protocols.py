"""protocol.png and report.html of an evaluation by shares of the labels: a table, and accuracy over the number of labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from vitrail.rendering import BLUE, INK, ORANGE, STRONG, house_style, new_figure, rule, to_svg
from vitrail.report.frame import Frame, write_page
from vitrail.report.page import Section
from vitrail.report.parts import Bullets, Drawing, Table, percent


class Cell(NamedTuple):
    """One protocol with one share of the labels and one seed, read once on test."""

    protocol: str
    labels: float  # share
    seed: int
    pictures: int  # with a label
    accuracy: float
    low: float  # 95 % of it, by bootstrap over the test images
    high: float
    chosen: str  # what validation or the recipe decided, in words
    predictions: str  # file


class Line(NamedTuple):
    """How a protocol is named and drawn."""

    title: str
    color: str
    style: str = "-"
    marker: str = "o"


LINES: Mapping[str, Line] = MappingProxyType(
    {
        "finetune": Line("fine-tuning", ORANGE),
        "linear": Line("linear", BLUE, marker="s"),
        "knn": Line("nearest neighbors", STRONG, marker="D"),
        "scratch": Line("from scratch", INK, ":", "v"),
        "pixels": Line("nearest neighbors by pixels", INK, "--", ""),
    }
)


@dataclass(frozen=True, kw_only=True)
class ProtocolReport:
    """What the page shows; all but the cells are words already."""

    title: str
    headline: str
    against: str = ""  # what it is to be compared with
    cells: Sequence[Cell]
    details: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)


def mean_table(cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    """Names of the columns, and one row per protocol: the mean over the seeds, with the lowest and the highest where there are several."""
    shares = sorted({(cell.labels, cell.pictures) for cell in cells})
    counts = {share: max(images for other, images in shares if other == share) for share, _ in shares}
    head = ["labels", *(f"{percent_of(share)} ({count:,})" for share, count in counts.items())]
    rows = []
    for name, line in LINES.items():
        if any(cell.protocol == name for cell in cells):
            found = [[cell.accuracy for cell in cells if (cell.protocol, cell.labels) == (name, share)] for share in counts]
            rows.append([line.title, *map(spell_seeds, found)])
    return head, rows


def spell_seeds(values: Sequence[float]) -> str:
    if not values:
        return "–"
    mean = f"{100 * float(np.mean(values)):.2f}"
    return mean if len(values) == 1 else f"{mean} ({100 * min(values):.2f} to {100 * max(values):.2f})"


def percent_of(share: float) -> str:
    return f"{100 * share:.4g} %"


def draw_protocols(cells: Sequence[Cell]) -> Figure:
    """Test accuracy over the number of labelled images. A line goes through the means of the seeds; a bar is from the lowest to the
    highest of them, or with one seed the bootstrap's 95 %."""
    with house_style():
        figure = new_figure(6.4, 3.8)
        axes = figure.subplots()
        axes.set_title("Right answers on test", loc="left")
        axes.set_xlabel("images with a label")
        axes.set_xscale("log")
        rule(axes)
        ticks: dict[int, float] = {}
        for name, line in LINES.items():
            own = [cell for cell in cells if cell.protocol == name]
            shares = sorted({cell.labels for cell in own})
            groups = [[cell for cell in own if cell.labels == share] for share in shares]
            if not groups:
                continue
            ticks |= {group[0].pictures: group[0].labels for group in groups}
            means = np.array([np.mean([cell.accuracy for cell in group]) for group in groups])
            ends = np.array([ends_of(group) for group in groups])
            axes.errorbar(
                [group[0].pictures for group in groups],
                means,
                yerr=np.maximum(0, [means - ends[:, 0], ends[:, 1] - means]),
                color=line.color,
                linestyle=line.style,
                marker=line.marker or None,
                markersize=4,
                capsize=2,
                elinewidth=0.9,
                label=line.title,
            )
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(list(ticks), [f"{count:,}\n{percent_of(share)}" for count, share in ticks.items()])
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=(1, 2, 5, 10)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
        axes.set_ylim(top=min(axes.get_ylim()[1], 1.02))
        if len(ticks) == 1:  # a log axis around one number would be of any width
            (count,) = ticks
            axes.set_xlim(count / 2, count * 2)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), labelcolor="linecolor")
        return figure


def ends_of(group: Sequence[Cell]) -> tuple[float, float]:
    if len(group) == 1:
        return group[0].low, group[0].high
    return min(cell.accuracy for cell in group), max(cell.accuracy for cell in group)


def write_protocol_report(report: ProtocolReport, path: Path) -> None:
    frame = Frame(
        title=report.title, headline=report.headline, certainty=report.against, details=report.details, commands=report.commands
    )
    write_page(path, frame, protocol_sections(report.cells))


def protocol_sections(cells: Sequence[Cell]) -> list[Section]:
    seeds = len({cell.seed for cell in cells})
    words = "% of the test images classified correctly, by the share of the training labels that was used." + (
        f" The mean of {seeds} seeds, with the lowest and the highest." if seeds > 1 else ""
    )
    figure = Drawing(to_svg(draw_protocols(cells)), "test accuracy over the number of labelled images, one line per protocol")
    return [
        Section("Right answers", [Table(*mean_table(cells)), figure], note=words),
        Section("Every reading of test", [list_cells(cells)], note="The interval is a bootstrap's over the test images."),
        Section("How it was measured", [Bullets(explain(cells))]),
    ]


def list_cells(cells: Sequence[Cell]) -> Table:
    head = ["protocol", "labels", "images", "seed", "right", "95 %", "chosen", "predictions"]
    return Table(
        head,
        [
            [
                LINES[cell.protocol].title,
                percent_of(cell.labels),
                f"{cell.pictures:,}",
                str(cell.seed),
                percent(cell.accuracy, digits=2),
                f"{100 * cell.low:.2f} to {100 * cell.high:.2f}",
                cell.chosen,
                cell.predictions,
            ]
            for cell in cells
        ],
    )


WORDS: Mapping[str, str] = MappingProxyType(
    {
        "knn": "Nearest neighbors: the features of the frozen backbone, votes of the 20 nearest labelled images by exp(cosine / 0.07).",
        "pixels": "Nearest neighbors by pixels: the same of the images themselves, no model; larger ones are shrunk to 32 pixels a side.",
        "linear": "Linear: logistic regression on the standardized features of the frozen backbone; validation chooses the penalty.",
        "finetune": "Fine-tuning: the whole network goes on from its weights, lower blocks more slowly; validation chooses the epoch.",
        "scratch": "From scratch: the same network with new weights, as many epochs, by the recipe for so many images; validation chooses the "
        "epoch.",
    }
)


def explain(cells: Sequence[Cell]) -> list[str]:
    used = {cell.protocol for cell in cells}
    common = "Labelled images are chosen of every class alike; those of a smaller share are among those of a larger one. Validation has all "
    common += "of its labels. Test is read once for each line above, and chooses nothing."
    return [*(WORDS[name] for name in LINES if name in used), common]
