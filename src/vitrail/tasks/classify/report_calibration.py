"""Whether the model is right as often as it says: the reliability diagram over the histogram of its confidence  [Guo+ 2017]."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from vitrail.learn.metrics.calibration import Calibration
from vitrail.rendering import BLUE, INK, ORANGE, house_style, to_svg
from vitrail.report.page import Section, templates_of
from vitrail.report.parts import Definitions, Drawing, percent

LEVEL = 0.01  # a mean gap smaller than this is not worth a word


def draw_reliability(found: Calibration) -> Figure:
    """In each bin of confidence: the accuracy (blue), its gap to the confidence, and how many predictions there are."""
    middles, width = (found.edges[:-1] + found.edges[1:]) / 2, float(np.diff(found.edges).mean())
    with house_style():
        figure = Figure(figsize=(4.6, 4.4), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        true, confident = np.nan_to_num(found.accuracy), np.nan_to_num(found.confidence)
        both = np.minimum(true, confident)
        upper.bar(middles, both, width=0.94 * width, color=BLUE, alpha=0.85, label="accuracy")
        upper.bar(middles, true - both, width=0.94 * width, bottom=both, color=BLUE, alpha=0.35, label="not sure enough")
        upper.bar(middles, confident - both, width=0.94 * width, bottom=both, color=ORANGE, alpha=0.7, label="too sure")
        upper.plot((0, 1), (0, 1), color=INK, linewidth=1, linestyle=(0, (4, 3)))
        upper.set(ylim=(0, 1.02), xlim=(0, 1), ylabel="accuracy")
        upper.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=3, fontsize=7.5, handlelength=1, columnspacing=1.2)
        lower.bar(middles, found.counts, width=0.94 * width, color=INK, alpha=0.6)
        lower.set(xlabel="confidence", ylabel="predictions")
        lower.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
        lower.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        percents = FuncFormatter(lambda value, _: f"{100 * value:.0f} %")
        upper.yaxis.set_major_formatter(percents)
        lower.xaxis.set_major_formatter(percents)
        return figure


def show_calibration(found: Calibration, *, several: bool) -> Section:
    """`several`: what is counted are all k decisions of each image, not its one prediction."""
    filled = found.counts > 0
    total = int(found.counts.sum())
    confident, true = (
        float((found.counts[filled] * part[filled]).sum() / total) for part in (found.confidence, found.accuracy)
    )
    if not np.isfinite(confident):
        return Section("Calibration", note="Not every probability is a number, so none can be compared with the accuracy.")
    numbers = {
        "Expected calibration error": percent(found.error, digits=2),
        "Largest gap of a bin": percent(found.highest),
        "Mean confidence": percent(confident),
        "Accuracy": percent(true),
    }
    if abs(confident - true) < LEVEL:
        verdict = "On average it is as sure as it should be."
    elif confident > true:
        verdict = f"On average it is too sure, by {100 * (confident - true):.1f} points."
    else:
        verdict = f"On average it is not sure enough, by {100 * (true - confident):.1f} points."
    what = "Each decision about a class of an image" if several else "The prediction of each image"
    note = f"{what} has a confidence. Bars that end on the dashed line: correct as often as the confidence says. Below: how many predictions each bin has."
    body = templates_of(__file__).render(
        "calibration.html",
        figure=Drawing(to_svg(draw_reliability(found)), "reliability diagram and histogram of confidence", kind="reliability"),
        verdict=verdict,
        numbers=Definitions(numbers, "options single"),
    )
    return Section("Calibration", [body], note=note)
