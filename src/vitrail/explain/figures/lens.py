"""What the head would say after each layer: curves of the whole image, maps of its patches.

l steps, b images, gh gw grid, k classes
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from vitrail.explain.figures.sheet import Sheet, shade
from vitrail.explain.lens import Lens
from vitrail.rendering import BLUE, ORANGE, house_style, rule, shorten

COLUMNS = 7
HUES = (BLUE, ORANGE, "#4d9a5b", "#9467b8", "#b8506b")


def draw_lens(lens: Lens, labels: Sequence[str] | None = None, *, image: int = 0, target: int | None = None) -> Figure:
    """Of one image: the likeliest classes over the layers, and below, patch by patch, the probability of `target`.

    `target` is the model's answer by default. The maps' scale goes from 0 to the highest probability there is.
    """
    whole = lens.whole[:, image].double().cpu().numpy()  # l k
    target = int(whole[-1].argmax()) if target is None else target
    patches = lens.patches[:, image, ..., target].double().cpu().numpy()  # l gh gw
    names = [str(number) for number in range(whole.shape[1])] if labels is None else [shorten(label, 20) for label in labels]
    order = sorted(range(whole.shape[1]), key=lambda k: (k != target, -whole[-1, k]))[: len(HUES)]
    steps, tall, wide = patches.shape
    columns = min(COLUMNS, steps)
    gap, left, width, curves = 0.1, 0.62, 6.6, 2.0
    across = min(1.15, (width - left) / columns - gap, 1.15 * wide / tall)
    down = across * tall / wide
    limit = float(patches.max()) or 1.0
    top = 0.32 + curves + 1.2
    with house_style():
        sheet = Sheet(width, top + -(-steps // columns) * (down + 0.3) + 0.05)
        axes = sheet.axes(left, 0.32, width - left - 1.85, curves)
        numbers = np.arange(steps)
        for hue, k in zip(HUES, order, strict=False):
            axes.plot(numbers, whole[:, k], color=hue, marker="o", markersize=3)
        axes.set_title("What the head would say behind each layer", loc="left")
        axes.set(xlabel="layers passed (0: the embedding)", ylim=(0, 1.04), xlim=(-0.3, steps - 0.7))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g} %"))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=14, integer=True, steps=(1, 2, 5, 10)))
        rule(axes)
        axes.legend(
            axes.lines,
            [names[k] for k in order],
            labelcolor="linecolor",
            loc="upper left",
            bbox_to_anchor=(1.01, 1.03),
            fontsize=8,
        )
        words = f"probability of {names[target]}, patch by patch"
        sheet.ramp(left, top - 0.5, 1.8, (0.0, limit), words, labels=("0", f"{100 * limit:.3g} %"))
        for step in range(steps):
            row, column = divmod(step, columns)
            place = (left + column * (across + gap), top + 0.1 + row * (down + 0.3))
            sheet.image(*place, across, down, shade(patches[step], limit))
            sheet.write(place[0], place[1] - 0.04, "embedding" if step == 0 else f"layer {step - 1}", fontsize=7)
        return sheet.figure
