"""What a run learned from and was scored on: images per class in each split, their sizes, and the files that could not be read.

k classes
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Integer
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from vitrail.data.bad_files import BadFile
from vitrail.data.dataset import DataSet, count_labels
from vitrail.data.examples import spread
from vitrail.data.images import ImageError
from vitrail.rendering import BLUE, INK, ORANGE, count_columns, house_style, shorten, to_svg
from vitrail.report.page import Content, Section, templates_of
from vitrail.report.parts import Bullets, Definitions, Drawing, Label
from vitrail.tasks.image_task import name_rare

MEASURED = 40  # images opened for their size
NAMED_CLASSES = 40  # up to here each bar has its name; beyond, bars are sorted by height
BAD_SHOWN = 8
COLORS: Mapping[str, tuple[str, float]] = {"train": (BLUE, 0.85), "val": (INK, 0.6), "test": (ORANGE, 0.85)}


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """What can be said of a dataset at a glance."""

    counts: Mapping[str, Integer[np.ndarray, "k"]]  # split -> images of each class
    images: Mapping[str, int]  # split -> how many
    sizes: Sequence[tuple[int, int]] = ()  # height, width of some images
    notes: Sequence[str] = ()
    bad: Sequence[BadFile] = ()


def summarize(data: DataSet, *, bad: Sequence[BadFile] = ()) -> DataSummary:
    """Counts of all images, sizes of a few, evenly spread over the first split."""
    classes = len(data.classes)
    counts: dict[str, np.ndarray] = {name: count_labels(split.labels, classes) for name, split in data.splits.items()}
    sizes, first = [], next(iter(data.splits.values()))
    for index in spread(len(first), MEASURED):
        try:
            image = first.read(index)
        except ImageError:
            continue
        sizes.append((image.height, image.width))
    images: dict[str, int] = {name: len(split) for name, split in data.splits.items()}
    return DataSummary(counts=counts, images=images, sizes=sizes, notes=(*data.notes, *name_rare(data)), bad=bad)


def draw_counts(counts: Mapping[str, Integer[np.ndarray, "k"]], labels: Sequence[str]) -> Figure:
    """Images per class, the splits stacked: named in their own order where classes are few, else sorted by size."""
    total = np.sum(list(counts.values()), axis=0)
    few = len(labels) <= NAMED_CLASSES
    order = np.arange(len(labels)) if few else np.argsort(-total, kind="stable")
    names = [shorten(name, 16) for name in labels] if few else []
    upright = max(map(count_columns, names), default=0) * len(names) <= 90
    with house_style():
        figure = Figure(figsize=(8.4, 2.7 if upright else 3.4), layout="constrained")
        axes, bottom = figure.subplots(), np.zeros(len(labels))
        for split, numbers in counts.items():
            color, alpha = COLORS.get(split, (INK, 0.5))
            axes.bar(
                np.arange(len(labels)),
                numbers[order],
                bottom=bottom,
                color=color,
                alpha=alpha,
                label=split,
                width=0.82 if few else 1.0,
            )
            bottom = bottom + numbers[order]
        axes.set(xlim=(-0.6, len(labels) - 0.4), ylim=(0, max(1.0, 1.18 * float(bottom.max(initial=0)))), ylabel="images")
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        if few:
            axes.set_xticks(np.arange(len(names)), labels=names, rotation=0 if upright else 90, fontsize=8, parse_math=False)
            axes.tick_params(axis="x", length=0)
        else:
            axes.set_xlabel(f"{len(labels):,} classes, the largest first")
        axes.legend(loc="upper right", ncols=len(counts), fontsize=8)
        return figure


def show_data(summary: DataSummary, labels: Sequence[str]) -> Section:
    total = np.sum(list(summary.counts.values()), axis=0) if summary.counts else np.zeros(len(labels), dtype=int)
    details = {"Classes": f"{len(labels):,}", **{f"Images, {name}": f"{count:,}" for name, count in summary.images.items()}}
    if summary.sizes:
        details["Sizes"] = spell_sizes(summary.sizes)
    if len(labels) > 1 and total.min() < total.max():
        most, least = int(total.argmax()), int(total.argmin())
        details["Largest class"] = f"{shorten(labels[most], 40)} ({total[most]:,})"
        details["Smallest class"] = f"{shorten(labels[least], 40)} ({total[least]:,})"
    body: list[Content] = [Definitions(details, "facts")]
    if summary.counts:
        svg = to_svg(draw_counts(summary.counts, labels))
        body.append(Drawing(svg, "images of each class in each split", kind="counts"))
    if summary.notes:
        body.append(Bullets(summary.notes))
    if summary.bad:
        body.append(_show_bad(summary.bad))
    return Section("Data", body)


def spell_sizes(sizes: Sequence[tuple[int, int]]) -> str:
    """ "8×8", or "from 120×200 to 480×640": height x width, smallest and largest by area."""
    ordered = sorted(sizes, key=lambda size: size[0] * size[1])
    first, last = ordered[0], ordered[-1]
    if len(set(sizes)) == 1:
        return f"{first[0]}×{first[1]}" + (f" ({len(sizes)} looked at)" if len(sizes) >= MEASURED else "")
    return f"from {first[0]}×{first[1]} to {last[0]}×{last[1]} ({len(sizes)} looked at)"


def _show_bad(bad: Sequence[BadFile]) -> Content:
    """The first few; bad_files.csv has them all."""
    count = (
        f"{len(bad):,} image{'s' if len(bad) > 1 else ''} could not be read and {'were' if len(bad) > 1 else 'was'} left out"
    )
    more = f" (bad_files.csv lists all {len(bad):,})" if len(bad) > BAD_SHOWN else ""
    files = [(Label(one.name, columns=100), one.reason) for one in bad[:BAD_SHOWN]]
    return templates_of(__file__).render("bad_files.html", words=f"{count}{more}:", files=files)
