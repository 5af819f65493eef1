"""Insertion and deletion curves: whether a map names what the model needs.

p points of a curve
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter
from torch import Tensor

from vitrail.rendering import BLUE, INK, ORANGE, house_style, rule

HUES = (BLUE, ORANGE, "#4d9a5b", "#9467b8", "#b8506b", "#3f9ea8", "#9a8343")
Curves = Mapping[str, Float[Tensor, "p"]]
PANELS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "insertion": ("Insertion: the higher, the better", "patches shown, most relevant first"),
        "deletion": ("Deletion: the lower, the better", "patches hidden, most relevant first"),
    }
)


def draw_faithfulness(insertion: Curves, deletion: Curves) -> Figure:
    """For each method the probability of its class as patches are shown, or hidden, by its map  [Petsiuk+ 2018].

    A curve has its points at even shares from 0 to 1; its legend has the area under it, best first. "random" is drawn gray.
    """
    hues = dict(zip((name for name in insertion if name != "random"), HUES, strict=False))
    with house_style():
        figure = Figure(figsize=(7.4, 3.9), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1))
        panels = figure.subplots(1, 2, sharey=True)
        _draw_panel(panels[0], insertion, hues, *PANELS["insertion"], best_is_high=True)
        _draw_panel(panels[1], deletion, hues, *PANELS["deletion"], best_is_high=False)
        panels[0].set_ylabel("probability of the class")
        return figure


def area(curve: Float[Tensor, "p"]) -> float:
    """Under a curve over [0, 1], by trapezoids."""
    numbers = curve.double().cpu().numpy()
    return float((numbers[1:] + numbers[:-1]).mean() / 2) if len(numbers) > 1 else float(numbers[0])


def _draw_panel(axes: Axes, curves: Curves, hues: Mapping[str, str], title: str, words: str, *, best_is_high: bool) -> None:
    for name in sorted(curves, key=lambda name: area(curves[name]), reverse=best_is_high):
        numbers = curves[name].double().cpu().numpy()
        random = name == "random"
        axes.plot(
            np.linspace(0, 1, len(numbers)),
            numbers,
            color=INK if random else hues.get(name, INK),
            linestyle=(0, (4, 3)) if random else "-",
            label=f"{name}  {area(curves[name]):.3f}",
        )
    axes.set_title(title, loc="left")
    axes.set(xlabel=words, xlim=(0, 1))
    axes.set_ylim(0, None)
    percent = FuncFormatter(lambda value, _: f"{100 * value:.3g} %")
    axes.xaxis.set_major_formatter(percent)
    axes.yaxis.set_major_formatter(percent)
    rule(axes)
    axes.legend(
        title="area under the curve", loc="upper left", bbox_to_anchor=(-0.02, -0.2), ncols=2, fontsize=7.5,
        title_fontsize=7.5, alignment="left", labelcolor="linecolor", columnspacing=1.2, handlelength=1.6,
    )  # fmt: skip
