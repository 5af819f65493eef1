"""One dot a head over the layers, and the mean: the form of figures by layer and head.

l layers, h heads
"""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from vitrail.rendering import BLUE, INK, ORANGE, house_style, rule


def draw_dots(
    values: Float[np.ndarray, "l h"], *, title: str, unit: str, reference: float | None = None, reference_words: str = ""
) -> Figure:
    """From 0 up, whole scale shown; `reference` is a dashed line to compare with."""
    layers, heads = values.shape
    with house_style():
        width = min(7.2, max(5.0, 2.2 + 0.3 * layers))
        figure = Figure(figsize=(width, 3.1), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
        axes = figure.subplots()
        numbers = np.arange(layers)
        aside = np.linspace(-0.14, 0.14, heads) if heads > 1 else np.zeros(1)  # heads side by side, to be distinguished
        places = (numbers[:, None] + aside).flatten()
        axes.plot(places, values.flatten(), "o", color=BLUE, alpha=0.6, markersize=4.5, markeredgewidth=0, zorder=3)
        axes.plot(numbers, np.nanmean(values, axis=1), color=ORANGE, linewidth=1.4, marker="_", markersize=10)
        some = "a head" if np.isnan(values).any() else f"one of {heads} heads"  # where layers have different numbers of them
        words = [some if heads > 1 else "the head", "mean over the heads"]
        if reference is not None:
            axes.axhline(reference, color=INK, linewidth=1, linestyle=(0, (4, 3)))
            words.append(reference_words)
        axes.set_title(title, loc="left")
        axes.set(xlabel="layer", ylabel=unit)
        axes.set_ylim(0, 1.08 * max(float(np.nanmax(values, initial=0.0)), reference or 0.0) or 1.0)
        axes.set_xlim(-0.5, layers - 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, steps=(1, 2, 5, 10)))
        rule(axes)
        figure.legend(
            axes.lines,
            words,
            loc="outside lower left",
            ncols=len(words),
            fontsize=7.5,
            handlelength=1.6,
            borderaxespad=0.1,
            columnspacing=1.2,
        )
        return figure
