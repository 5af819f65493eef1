"""What is taken for what: the confusion matrix as a figure, readable with three classes and with a thousand, and the most frequent mistakes.

k classes
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Integer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vitrail.learn.metrics.confusion import confusion_shares, frequent_confusions, hardest_classes
from vitrail.rendering import BLUE, INK, ORANGE, STRONG, count_columns, house_style, shorten, to_svg
from vitrail.report.page import Section, templates_of
from vitrail.report.parts import Confused, Drawing, Table, percent
from vitrail.tint import FAINTEST, tint

NUMBERED_CLASSES = 15  # up to here a cell holds its number
LABELLED_CLASSES = 30  # up to here every class has its tick; beyond, about twenty have
DRAWN_CLASSES = 100  # beyond, only the classes with the most mistakes are drawn
LABEL_COLUMNS = 14
CONFUSIONS = 12  # rows of the table


def confusion_section(
    matrix: Integer[np.ndarray, "k k"],
    labels: Sequence[str],
    *,
    counted: str,
    note: str,
    drawn: Integer[np.ndarray, "k k"] | None = None,
) -> Section:
    """The matrix beside the most frequent mistakes. `counted` are what the matrix counts; `drawn` is what the cells of the figure say, by
    default the matrix itself."""
    shares, rows = confusion_shares(matrix), []
    for true, predicted, count in frequent_confusions(matrix, CONFUSIONS):
        rows.append((Confused.of(labels[true], labels[predicted]), f"{count:,}", percent(float(shares[true, predicted]))))
    if len(labels) > DRAWN_CLASSES:
        note += f" Shown: the {DRAWN_CLASSES} of {len(labels):,} classes with the most mistakes."
    svg = to_svg(draw_confusion(matrix if drawn is None else drawn, labels))
    body = templates_of(__file__).render(
        "confusions.html",
        figure=Drawing(svg, "confusion matrix", kind="confusion"),
        table=Table(("Most frequent", counted, "of class"), rows) if rows else None,
    )
    return Section("Confusions", [body], note=note)


def draw_confusion(matrix: Integer[np.ndarray, "k k"], labels: Sequence[str]) -> Figure:
    """Rows: the true class, columns: the predicted class. Blue: right, orange: wrong, each a share of the true class's images."""
    shown = hardest_classes(matrix, DRAWN_CLASSES) if len(matrix) > DRAWN_CLASSES else np.arange(len(matrix))
    shares = np.nan_to_num(confusion_shares(matrix))[np.ix_(shown, shown)]
    right = np.eye(len(shown), dtype=bool)
    worst = float(np.max(shares, where=~right, initial=0.0)) or 1.0
    opacities = np.where(right, shares, shares / worst)
    every = 1 if len(shown) <= LABELLED_CLASSES else -(-len(shown) // 20)  # which classes have a tick
    names = [shorten(labels[int(index)], LABEL_COLUMNS) for index in shown[::every]]
    longest = max(map(count_columns, names), default=1)

    font = 9.0 if len(shown) <= 12 else 7.5
    side = 4.2 if len(shown) <= NUMBERED_CLASSES else 5.4  # inches
    left, bottom, top = 0.42 + longest * font * 0.6 / 72, 0.42 + (longest if longest > 3 else 1) * font * 0.6 / 72, 0.62
    width, height = left + side + 0.12, bottom + side + top
    with house_style():
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes((left / width, bottom / height, side / width, side / height))
        axes.imshow(tint(opacities, right, faintest=FAINTEST), interpolation="none", aspect="auto")
        axes.set(ylabel="true class", xlabel="predicted class")
        _label_ticks(axes, names, every=every, font=font, upright=longest <= 3)
        if len(shown) <= NUMBERED_CLASSES:
            _number_cells(axes, matrix[np.ix_(shown, shown)], opacities, font=font)
        for start, color, share in ((0.0, BLUE, 1.0), (0.56, ORANGE, worst)):
            place = ((left + start * side) / width, 1 - 0.34 / height, 0.44 * side / width, 0.1 / height)
            _draw_scale(figure.add_axes(place), color, share)
        return figure


def _label_ticks(axes: Axes, names: Sequence[str], *, every: int, font: float, upright: bool) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(every * np.arange(len(names)), labels=names, fontsize=font, parse_math=False)  # "$" is a letter here
        if every == 1:
            axis.set_ticks(np.arange(0.5, len(names) - 1), minor=True)
    if not upright:
        for label in axes.get_xticklabels():
            label.set(rotation=90, rotation_mode="anchor", horizontalalignment="right", verticalalignment="center")
    axes.grid(which="minor", color=INK, alpha=0.2, linewidth=0.5)
    axes.tick_params(which="minor", length=0)
    axes.tick_params(which="major", length=0 if every == 1 else 2.5, pad=3)
    axes.spines[:].set_visible(True)


def _number_cells(axes: Axes, counts: Integer[np.ndarray, "k k"], opacities: Float[np.ndarray, "k k"], *, font: float) -> None:
    for row, column in np.argwhere(counts):
        count, color = int(counts[row, column]), "white" if opacities[row, column] > 0.6 else STRONG
        text = str(count) if count < 10_000 else f"{count / 1000:.0f}k"
        axes.text(column, row, text, color=color, fontsize=font, ha="center", va="center_baseline")


def _draw_scale(axes: Axes, color: str, share: float) -> None:
    """The legend of one hue, from nothing to `share`."""
    ramp = np.linspace(0, 1, 64)[None, :]
    axes.imshow(
        tint(ramp, np.full(ramp.shape, color == BLUE), faintest=FAINTEST),
        interpolation="none",
        aspect="auto",
        extent=(0, share, 0, 1),
    )
    axes.set_title(f"{'right' if color == BLUE else 'wrong'}, share of the class", fontsize=7.5, loc="left", pad=3, color=color)
    ends = (0, share / 2, share)
    axes.set_xticks(ends, labels=[f"{100 * end:.3g} %" for end in ends], fontsize=7)
    axes.set_yticks([])
    for label, alignment in zip(axes.get_xticklabels(), ("left", "center", "right"), strict=True):
        label.set(horizontalalignment=alignment)
    axes.tick_params(length=0, pad=2)
    axes.spines[:].set_visible(True)
