"""Pictures gone on with, as a sheet, and report.html of a model of pixels: its bits, its completions, what its layers know.

h w picture, ch channels, s samples
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure

from vitrail.explain.figures.probe import draw_probe
from vitrail.explain.figures.sheet import Sheet
from vitrail.explain.probe import Probe
from vitrail.rendering import house_style, shorten, to_png, to_svg
from vitrail.report.page import Markup, drawing, element, photograph, section

SIDE, GAP, MARGIN, TOP = (
    0.72,
    0.08,
    0.14,
    0.42,
)  # inches: a picture's longer side, between them, around, and above for the words


class Completion(NamedTuple):
    """One picture, as the palette shows it, how many of its first pixels were given, and what the model made of them."""

    name: str
    original: UInt8[np.ndarray, "h w ch"]
    given: int
    samples: UInt8[np.ndarray, "s h w ch"]


def draw_completions(some: Sequence[Completion]) -> Figure:
    """A row for each picture: the original, what was given of it, the samples."""
    height, width = some[0].original.shape[:2]
    high, wide = SIDE * height / max(height, width), SIDE * width / max(height, width)
    count = max(len(one.samples) for one in some)
    step, left = wide + GAP, MARGIN
    apart = left + 2 * step + GAP  # samples stand a little away from what they are made from
    with house_style():
        sheet = Sheet(apart + count * step - GAP + MARGIN, TOP + len(some) * (high + GAP) - GAP + MARGIN)
        for words, place in (("original", left), ("given", left + step), ("samples", apart)):
            sheet.write(place, TOP - 0.1, words, fontsize=7.5)
        for number, one in enumerate(some):
            top = TOP + number * (high + GAP)
            sheet.picture(left, top, wide, high, as_color(one.original))
            sheet.picture(left + step, top, wide, high, show_given(one))
            for column, sample in enumerate(one.samples):
                sheet.picture(apart + column * step, top, wide, high, as_color(sample))
        return sheet.figure


def as_color(picture: UInt8[np.ndarray, "h w ch"]) -> UInt8[np.ndarray, "h w 3"]:
    return np.repeat(picture, 3, axis=2) if picture.shape[2] == 1 else picture


def show_given(one: Completion) -> UInt8[np.ndarray, "h w 4"]:
    """The original where it was given, nothing elsewhere."""
    height, width = one.original.shape[:2]
    there = (np.arange(height * width) < one.given).reshape(height, width, 1)
    return np.concatenate([as_color(one.original), np.where(there, 255, 0).astype(np.uint8)], axis=2) * there.astype(np.uint8)


def pixel_sections(completions: Sequence[Completion], probe: Probe | str | None) -> Iterator[Markup]:
    """What a model of pixels draws and what its layers know, for `report.pretraining`; `probe` may be why there is none."""
    if completions:
        yield show_completions(completions)
    if isinstance(probe, Probe):
        yield show_probe(probe)
    elif probe is not None:
        yield section("What the layers know", note=f"Not shown: {probe}.")


def show_completions(some: Sequence[Completion]) -> Markup:
    names = ", ".join(shorten(one.name, 40) for one in some)
    sheet = photograph(to_png(draw_completions(some)), f"completions of the pictures {names}", pixelated=False)
    note = (
        "Pictures that were not learned from, in the palette's colors. The model saw what was given and drew the rest, pixel after "
        "pixel, each from its own probabilities: samples differ because the model does not know which one is meant."
    )
    return section("Completions", element("figure", sheet, class_="view"), note=note)


def show_probe(probe: Probe) -> Markup:
    note = (
        "A linear classifier reads the labels, which the model has never seen, from the mean of the tokens behind each block. "
        "The ring is the block that validation chooses."
    )
    best = f"{100 * probe.test[probe.best]:.1f} % behind block {probe.best + 1}"
    figure = drawing(to_svg(draw_probe(probe)), f"accuracy of a linear probe by block: {best}")
    return section(
        "What the layers know", element("div", element("div", figure, class_="insight"), class_="insights"), note=note
    )
