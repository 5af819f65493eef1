"""The figures of a report: pure functions from numbers to a matplotlib Figure. No pyplot, so nothing is shared or left open."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

from vitrail.rendering import BLUE, INK, ORANGE, house_style, to_png, to_svg
from vitrail.report.matrix import draw_confusion

__all__ = ["History", "Panel", "draw_confusion", "draw_curves", "to_png", "to_svg"]

History = Sequence[Mapping[str, float | int]]  # the rows of results.csv
Panel = Literal["loss", "score", "rate"]
WIDTHS: Mapping[Panel, float] = MappingProxyType({"loss": 4.2, "score": 4.2, "rate": 2.8})  # inches


class Score(NamedTuple):
    """How a task's score is told: 0.9861 as 98.61 %, or as it is."""

    title: str
    factor: float = 100.0
    unit: str = " %"
    lowest: bool = False  # is the best


SCORES: Mapping[str, Score] = MappingProxyType(  # columns of results.csv behind val_, the first that there is
    {
        "ap50": Score("AP50"),
        "map": Score("mean average precision"),
        "accuracy": Score("accuracy"),
        "exact": Score("captions exactly right"),
        "bleu": Score("BLEU", unit=""),
        "psnr": Score("PSNR", factor=1.0, unit=" dB"),
        "miou": Score("mean IoU"),
        "perplexity": Score("perplexity", factor=1.0, unit="", lowest=True),
        "bits_per_pixel": Score("bits a pixel", factor=1.0, unit="", lowest=True),
        "knn": Score("accuracy of nearest neighbors"),
        "spread": Score("spread of features", factor=1.0, unit=""),
        "dice": Score("Dice"),
    }
)
STEPS = (1, 2, 5, 10)  # ticks at round numbers


def draw_curves(history: History, *, panels: tuple[Panel, ...] = ("loss", "score", "rate")) -> Figure:
    """Over the epochs, side by side: the losses, the validation score, the learning rate."""
    with house_style():
        widths = [WIDTHS[panel] for panel in panels]
        figure = Figure(figsize=(sum(widths), 2.9), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False, width_ratios=widths)[0], panels, strict=True):
            axes.set_xlabel("epoch")
            axes.grid(axis="y", color=INK, alpha=0.18, linewidth=0.7)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=round(1.5 * WIDTHS[panel]), steps=STEPS, integer=True))
            axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=STEPS))
            if panel == "loss":
                _draw_loss(axes, history)
            elif panel == "score":
                _draw_score(axes, history)
            else:
                _draw_rate(axes, history)
            if len(history) == 1:
                axes.set_xticks([history[0]["epoch"]])
        return figure


def _draw_loss(axes: Axes, history: History) -> None:
    axes.set_title("Loss", loc="left")
    _draw_line(axes, history, "train_loss", color=ORANGE)
    _draw_line(axes, history, "val_loss", color=BLUE)
    axes.legend(axes.lines, ["training", "validation"], loc="best", labelcolor="linecolor")


def _draw_score(axes: Axes, history: History) -> None:
    """What the task is judged by, with its best epoch."""
    name = next((name for name in SCORES if any(f"val_{name}" in row for row in history)), "accuracy")
    score = SCORES[name]
    axes.set_title(f"Validation {score.title}", loc="left")
    epochs, values = _draw_line(axes, history, f"val_{name}", color=BLUE)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{score.factor * value:.4g}{score.unit}"))
    if np.isfinite(values).any():
        best = int(np.nanargmin(values) if score.lowest else np.nanargmax(values))
        axes.plot(epochs[best], values[best], "o", color=BLUE, markersize=6)
        if score.factor > 1:  # a share: what is above 1 is not to be had
            axes.set_ylim(top=min(axes.get_ylim()[1], 1.02))
        which = "lowest" if score.lowest else "highest"
        words = f"{which} {score.factor * values[best]:.2f}{score.unit}, epoch {epochs[best]:g}"
        height, side = (0.96, "top") if score.lowest else (0.04, "bottom")
        axes.text(0.98, height, words, color=BLUE, ha="right", va=side, transform=axes.transAxes)


def _draw_rate(axes: Axes, history: History) -> None:
    axes.set_title("Learning rate", loc="left")
    _draw_line(axes, history, "lr", color=INK)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.set_ylim(bottom=0)


def _draw_line(axes: Axes, history: History, key: str, *, color: str) -> tuple[Float[np.ndarray, "e"], Float[np.ndarray, "e"]]:
    """A gap where a row has no such key or no finite value; dots where the epochs are few enough to tell apart."""
    epochs = np.array([row["epoch"] for row in history], dtype=np.float64)
    values = np.array([row.get(key, np.nan) for row in history], dtype=np.float64)
    values[~np.isfinite(values)] = np.nan
    axes.plot(epochs, values, color=color, marker="o" if len(epochs) <= 12 else None, markersize=3)
    return epochs, values
