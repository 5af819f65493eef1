"""The figure of a learning-rate range test."""

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from vitrail.learn.optim.range_test import RangeTest, smooth_losses
from vitrail.rendering import BLUE, INK, ORANGE, house_style


def draw_range_test(result: RangeTest) -> Figure:
    """The loss of each step over its rate, the curve that the choice was read from, and the choice."""
    with house_style():
        figure = Figure(figsize=(5.6, 2.9), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
        axes = figure.subplots()
        axes.set_title("Range test", loc="left")
        axes.set_xlabel("learning rate")
        axes.set_ylabel("training loss")
        axes.set_xscale("log")
        axes.grid(axis="y", color=INK, alpha=0.18, linewidth=0.7)
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
