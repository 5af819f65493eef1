"""How well each layer's tokens tell the labels  [Chen+ 2020, fig. 2]."""

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from vitrail.explain.probe import Probe
from vitrail.rendering import BLUE, INK, house_style, new_figure, rule


def draw_probe(probe: Probe) -> Figure:
    """Accuracy on the test images behind each block, numbered from 1; a ring where validation is highest."""
    layers = range(1, len(probe.test) + 1)
    with house_style():
        figure = new_figure(5.2, 3.0)
        axes = figure.subplots()
        axes.set_title("What a linear classifier reads from each layer", loc="left")
        axes.plot(layers, probe.test, color=BLUE, marker="o", markersize=4)
        best = probe.best
        axes.plot(best + 1, probe.test[best], "o", markersize=10, markerfacecolor="none", markeredgecolor=BLUE)
        axes.axhline(probe.chance, color=INK, linestyle=(0, (4, 3)), linewidth=1.0)
        axes.text(0.99, probe.chance, "the largest class ", ha="right", va="bottom", transform=axes.get_yaxis_transform())
        side = "left" if best == 0 else "right" if best == len(probe.test) - 1 else "center"
        words, below = f"block {best + 1}: {100 * probe.test[best]:.1f} %", (0, -20)  # points
        axes.annotate(words, (best + 1, probe.test[best]), xytext=below, textcoords="offset points", color=BLUE, ha=side)
        axes.set(xlabel="block", ylabel="accuracy on test")
        axes.set_ylim(bottom=0, top=max(1.0, axes.get_ylim()[1]) if max(probe.test) > 0.9 else None)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g} %"))
        rule(axes)
        return figure
