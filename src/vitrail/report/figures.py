"""The figures of training, curves and the range test: pure functions from numbers to a matplotlib Figure. No pyplot, so nothing is shared or left open."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from vitrail.learn.optim.range_test import RangeTest, smooth_losses
from vitrail.learn.training.objective import Score
from vitrail.rendering import BLUE, INK, ORANGE, house_style, new_figure, rule, to_png, to_svg

__all__ = ["History", "Panel", "Rows", "draw_curves", "draw_range_test", "to_png", "to_svg"]

History = Sequence[Mapping[str, float | int]]  # the rows of results.csv, or the records of metrics.jsonl
Panel = Literal["loss", "score", "rate"]
WIDTHS: Mapping[Panel, float] = MappingProxyType({"loss": 4.2, "score": 4.2, "rate": 2.8})  # inches


class Rows(tuple[Mapping[str, float | int], ...]):
    """The rows of results.csv, with how their score is shown, the records of the steps between them, and the epochs at which the end of
    the run was moved."""

    score: Score | None = None
    steps: History = ()
    marks: Sequence[float] = ()

    @classmethod
    def of(cls, rows: History, score: Score | None, *, steps: History = (), marks: Sequence[float] = ()) -> "Rows":
        found = cls(rows)
        found.score, found.steps, found.marks = score, steps, marks
        return found


STEPS = (1, 2, 5, 10)  # ticks at round numbers
DRAWN = 200  # points of a curve of steps, at most
SMOOTHED = 40  # windows that the steps of a run have room for: each point is a mean over one


def draw_curves(history: History, *, panels: tuple[Panel, ...] = ("loss", "score", "rate")) -> Figure:
    """Over the epochs, side by side: the losses, the validation score, the learning rate."""
    with house_style():
        widths = [WIDTHS[panel] for panel in panels]
        figure = new_figure(sum(widths), 2.9)
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False, width_ratios=widths)[0], panels, strict=True):
            axes.set_xlabel("epoch")
            rule(axes)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=round(1.5 * WIDTHS[panel]), steps=STEPS, integer=True))
            axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=STEPS))
            if panel == "loss":
                _draw_loss(axes, history)
            elif panel == "score":
                _draw_score(axes, history)
            else:
                _draw_rate(axes, history)
            for mark in getattr(history, "marks", ()):
                axes.axvline(mark, color=INK, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
                axes.annotate(
                    "end moved", (mark, 0.5), (-1, 0), xycoords=("data", "axes fraction"), textcoords="offset points",
                    color=INK, fontsize=7, rotation=90, ha="right", va="center",
                )  # fmt: skip
            if len(history) == 1 and not (panel != "score" and has_steps(history)):
                axes.set_xticks([history[0]["epoch"]])
        return figure


def _draw_loss(axes: Axes, history: History) -> None:
    axes.set_title("Loss", loc="left")
    _draw_steps(axes, history, "loss", color=ORANGE, smoothed=True) or _draw_line(axes, history, "train_loss", color=ORANGE)
    _draw_line(axes, history, "val_loss", color=BLUE)
    axes.legend(axes.lines, ["training", "validation"], loc="best", labelcolor="linecolor")


def _draw_score(axes: Axes, history: History) -> None:
    """What the task is judged by, with its best epoch."""
    score = getattr(history, "score", None)
    columns = dict.fromkeys(name.removeprefix("val_") for row in history for name in row if name.startswith("val_"))
    name = next((name for name in columns if name != "loss"), "score") if score is None else score.key
    shown: Callable[[float], str] = (lambda value: f"{value:.4g}") if score is None else score.format
    axes.set_title(f"Validation {name if score is None else score.short}", loc="left")
    epochs, values = _draw_line(axes, history, f"val_{name}", color=BLUE)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}" if score is None else score.tick(value)))
    if np.isfinite(values).sum() == 1:  # of several epochs, too: not all tasks measure it in each
        axes.set_xticks(epochs[np.isfinite(values)])
    if np.isfinite(values).any():
        lowest = score is not None and not score.higher_is_better
        best = int(np.nanargmin(values) if lowest else np.nanargmax(values))
        axes.plot(epochs[best], values[best], "o", color=BLUE, markersize=6)
        if score is not None and score.is_share:  # what is above 1 is not to be had
            axes.set_ylim(top=min(axes.get_ylim()[1], 1.02))
        words = f"{'lowest' if lowest else 'highest'} {shown(values[best])}, epoch {epochs[best]:g}"
        height, side = (0.96, "top") if lowest else (0.04, "bottom")
        axes.text(0.98, height, words, color=BLUE, ha="right", va=side, transform=axes.transAxes)


def _draw_rate(axes: Axes, history: History) -> None:
    axes.set_title("Learning rate", loc="left")
    _draw_steps(axes, history, "lr", color=INK) or _draw_line(axes, history, "lr", color=INK)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.set_ylim(bottom=0)


def _draw_steps(axes: Axes, history: History, key: str, *, color: str, smoothed: bool = False) -> bool:
    """A curve of the records of steps over the epochs; False where there are fewer than two."""
    epochs, values = step_curve(
        getattr(history, "steps", ()), key, last=max((float(row["epoch"]) for row in history), default=0.0)
    )
    if len(epochs) < 2:
        return False
    window = -(-len(epochs) // SMOOTHED) if smoothed else 1
    axes.plot(*thin(epochs, moving_mean(values, window)), color=color)
    return True


def has_steps(history: History) -> bool:
    return len(step_curve(getattr(history, "steps", ()), "loss", last=0.0)[0]) > 1


def step_curve(steps: History, key: str, *, last: float) -> tuple[Float[np.ndarray, "s"], Float[np.ndarray, "s"]]:
    """Of each step with a finite value: the epochs that are over behind it, whole ones and a share of its own, and the value.

    An epoch up to `last` has as many steps as were recorded; a later one was not finished, and has as many as the longest.
    """
    known = (step for step in steps if "epoch" in step and np.isfinite(step.get(key, np.nan)))
    found = sorted(known, key=lambda step: step["epoch"])
    numbers = np.array([step["epoch"] for step in found], dtype=np.int64)
    values = np.array([step[key] for step in found], dtype=np.float64)
    if not len(numbers):
        return values, values
    _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    inside = np.arange(len(numbers)) - np.repeat(first, counts) + 1
    length = np.repeat(counts, counts)
    length = np.where(numbers < last, length, counts.max()) if last else length
    return numbers + inside / length, values


def moving_mean(values: Float[np.ndarray, "s"], window: int) -> Float[np.ndarray, "s"]:
    """Of each value and those around it, `window` of them; of fewer at the ends."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    low, high = np.maximum(at - (window - 1) // 2, 0), np.minimum(at + window // 2 + 1, len(values))
    return (sums[high] - sums[low]) / (high - low)


def thin(*curves: Float[np.ndarray, "s"]) -> tuple[Float[np.ndarray, "t"], ...]:
    """At most DRAWN points of each, evenly spread, the first and the last among them."""
    count = len(curves[0])
    at = np.unique(np.linspace(0, count - 1, min(DRAWN, count)).round().astype(np.int64))
    return tuple(curve[at] for curve in curves)


def _draw_line(axes: Axes, history: History, key: str, *, color: str) -> tuple[Float[np.ndarray, "e"], Float[np.ndarray, "e"]]:
    """A gap where a row has no such key or no finite value; dots where the epochs are few enough to tell apart."""
    epochs = np.array([row["epoch"] for row in history], dtype=np.float64)
    values = np.array([row.get(key, np.nan) for row in history], dtype=np.float64)
    values[~np.isfinite(values)] = np.nan
    axes.plot(epochs, values, color=color, marker="o" if len(epochs) <= 12 else None, markersize=3)
    return epochs, values


def draw_range_test(result: RangeTest) -> Figure:
    """The loss of each step over its learning rate, the curve that the choice was read from, and the choice."""
    with house_style():
        figure = new_figure(5.6, 2.9)
        axes = figure.subplots()
        axes.set_title("Range test", loc="left")
        axes.set(xlabel="learning rate", ylabel="training loss", xscale="log")
        rule(axes)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=(1, 2, 5, 10)))
        smooth = smooth_losses(result.rates, result.losses)
        axes.plot(result.rates, result.losses, "o", color=INK, alpha=0.45, markersize=3, markeredgewidth=0)
        axes.plot(result.rates, smooth, color=BLUE)
        axes.axvline(result.chosen, color=ORANGE, linewidth=1.2)
        # The last losses may be of any size: the curve, which is bounded, says what is worth seeing.
        low, high = min(smooth.min(), min(result.losses)), smooth.max()
        span = high - low or 1.0
        axes.set_ylim(low - 0.06 * span, high + 0.12 * span)
        axes.annotate(
            f" chosen {result.chosen:.1e}", (result.chosen, 1.0), xycoords=("data", "axes fraction"), color=ORANGE, va="top"
        )
        return figure
