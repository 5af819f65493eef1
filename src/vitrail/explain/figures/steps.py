"""The six steps of self-attention as one image: a line for each of the keys that matter most.

m keys, d width of a vector
"""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from vitrail.explain.figures.sheet import Sheet, shade, short_number
from vitrail.explain.steps import Steps
from vitrail.rendering import BLUE, INK, ORANGE, house_style

LINE = 0.26  # inches
VECTOR, BARS, GAP = 1.55, 0.95, 0.2  # widths
TOP = 1.32
WORDS = (
    "1 The token asks: its query.",
    "2 All tokens have an address: their keys.",
    "3 Query times key: how well they match.",
    "4 Divided by √d, so that scores stay moderate.",
    "5 Softmax: shares that sum to 100 %.",
    "6 The values, each times its share, added up.",
)


def draw_steps(steps: Steps, *, count: int = 8) -> Figure:
    """1 query, 2 keys, 3 scores, 4 scaled, 5 softmax, 6 sum of the values: the `count` keys of largest weight, the rest together.

    Vectors are strips, blue above 0 and orange below, queries and keys on one scale, values and output on another.
    """
    order = steps.weights.argsort(descending=True, stable=True)[:count].tolist()
    rest = len(steps.names) - len(order)
    lines = len(order) + (rest > 0)
    query, output = _row(steps.query), _row(steps.output)
    keys, values = _rows(steps.keys[order]), _rows(steps.values[order])
    asking = float(max(np.abs(query).max(), np.abs(keys).max()))
    reading = float(max(np.abs(output).max(), np.abs(values).max()))
    scores, scaled, weights = (part.double().cpu().numpy() for part in (steps.scores, steps.scaled, steps.weights))
    names = 0.2 + 0.062 * max(len(_place(steps.names[key])) for key in order)
    lefts = np.cumsum([names, VECTOR + GAP, BARS + GAP, BARS + GAP, BARS + GAP]).tolist()
    width, bottom = lefts[-1] + VECTOR + 0.12, TOP + lines * LINE
    with house_style():
        sheet = Sheet(width, bottom + 1.1)
        head = f"Layer {steps.layer}, head {steps.head}: how the {_place(steps.asker)} reads the image"
        sheet.write(0.1, 0.2, head, fontsize=9, fontweight="bold")
        for number, sentence in enumerate(WORDS):
            column, row = divmod(number, 3)
            sheet.write(lefts[1] + 2.35 * column, 0.5 + 0.19 * row, sentence, fontsize=7)
        _title(sheet, lefts[0], 0.5, "1  query q")
        _strip(sheet, query, asking, lefts[0], 0.58)
        for number, (title, left) in enumerate(
            zip(("2  keys k", "3  q·k", f"4  {_short(steps)}", "5  softmax", "values v"), lefts, strict=True)
        ):
            _title(sheet, left, TOP - 0.1, title, strong=number < 4)
        for line, key in enumerate(order):
            middle = TOP + (line + 0.5) * LINE
            sheet.write(names - 0.08, middle, _place(steps.names[key]), ha="right", va="center", fontsize=7.5)
            _strip(sheet, keys[line], asking, lefts[0], TOP + line * LINE + 0.04)
            _strip(sheet, values[line], reading, lefts[4], TOP + line * LINE + 0.04)
        if rest:
            sheet.write(
                names - 0.08, bottom - LINE / 2, f"{rest} other{'s' if rest > 1 else ''}", ha="right", va="center", fontsize=7.5
            )
        left_over = [1 - float(weights[order].sum())] if rest else []
        _bars(sheet, lefts[1], lines, [float(scores[key]) for key in order])
        _bars(sheet, lefts[2], lines, [float(scaled[key]) for key in order])
        _bars(sheet, lefts[3], lines, [*(float(weights[key]) for key in order), *left_over], percent=True)
        _title(sheet, lefts[4], bottom + 0.2, "6  Σ weight · v" + ("" if steps.read is None else " + read"))
        _strip(sheet, output, reading, lefts[4], bottom + 0.28)
        for left, top, limit, words in (
            (lefts[0], bottom + 0.3, asking, "queries and keys"),
            (lefts[4], bottom + 0.78, reading, "values and sum"),
        ):
            sheet.ramp(left, top, VECTOR, (-(limit or 1.0), 0.0, limit or 1.0), words)
        return sheet.figure


def _row(vector: Float[Tensor, "d"]) -> Float[np.ndarray, "1 d"]:
    return vector.double().cpu().numpy()[None]


def _rows(vectors: Float[Tensor, "m d"]) -> list[Float[np.ndarray, "1 d"]]:
    return [_row(vector) for vector in vectors]


def _place(name: str) -> str:
    """How a token is called on paper."""
    return f"patch {name}" if name.startswith("(") else "class token" if name == "class" else name


def _short(steps: Steps) -> str:
    return ("s·cos" if steps.cosine else f"/ √{len(steps.query)}") + ("" if steps.bias is None else " + bias")


def _title(sheet: Sheet, left: float, top: float, words: str, *, strong: bool = True) -> None:
    sheet.write(left, top, words, fontsize=8, fontweight="bold" if strong else "normal")


def _strip(sheet: Sheet, row: Float[np.ndarray, "1 d"], limit: float, left: float, top: float) -> None:
    sheet.image(left, top, VECTOR, LINE - 0.08, shade(row, limit))


def _bars(sheet: Sheet, left: float, lines: int, numbers: list[float], *, percent: bool = False) -> None:
    """Bars from 0, each with its number; -inf, a key that may not be looked at, has none."""
    axes: Axes = sheet.axes(left, TOP, BARS, lines * LINE)
    finite = [number if np.isfinite(number) else 0.0 for number in numbers]
    low, high = min(0.0, *finite), max(0.0, *finite)
    span = (high - low) or 1.0
    axes.barh(np.arange(len(finite)), finite, height=0.62, color=[BLUE if n >= 0 else ORANGE for n in finite], alpha=0.6)
    axes.axvline(0, color=INK, linewidth=0.7)
    for line, number in enumerate(numbers):
        words = f"{100 * number:.3g} %" if percent else short_number(number)
        # Behind the bar's end; of a negative one on the free side of 0, where there always is room.
        axes.text(max(finite[line], 0.0) + 0.03 * span, line, words, fontsize=7.5, va="center")
    axes.set(xlim=(low, high + 0.9 * span), ylim=(lines - 0.5, -0.5))
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
