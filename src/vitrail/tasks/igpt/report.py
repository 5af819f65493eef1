"""The report of a model of pixels: its completions, and what its layers know.

h w image, ch channels, s samples
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vitrail.data.dataset import DataSet, Split
from vitrail.data.examples import read_some
from vitrail.explain.figures.probe import draw_probe
from vitrail.explain.probe import Probe
from vitrail.rendering import shorten, to_png, to_svg
from vitrail.report.frame import Frame, write_framed
from vitrail.report.page import Markup, drawing, element, photograph, section
from vitrail.tasks.igpt.predict import Completion, complete_images, draw_completions
from vitrail.tasks.task import Scored, Setup

SHOWN, SAMPLES = 8, 6  # completions


def write(path: Path, scored: Scored[DataSet], setup: Setup[Any, DataSet, Any], frame: Frame) -> None:
    """report.html."""
    model, probe = scored.model, scored.extras
    completions = show_some(model, setup.data["val"], seed=setup.options.seed) if model.config.causal else ()
    write_framed(path, frame, tuple(pixel_sections(completions, probe)))


def commands(run: str, model: Any) -> Mapping[str, str]:
    return {
        **({"Complete images": f"vitrail complete {run} IMAGE... --out DIR"} if model.config.causal else {}),
        "Score it again": f"vitrail eval {run}",
    }


def show_some(model: Any, split: Split, *, seed: int) -> Sequence[Completion]:
    """Completions of some images, evenly chosen."""
    some = read_some(split, model.preprocessing, SHOWN)
    if some is None:
        return ()
    names = [split.name(index) for index in some.indices]
    return complete_images(model, some.pictures, names=names, samples=SAMPLES, seed=seed)


def pixel_sections(completions: Sequence[Completion], probe: Probe | str | None) -> Iterator[Markup]:
    """What a model of pixels draws and what its layers know; `probe` may be why there is none."""
    if completions:
        yield show_completions(completions)
    if isinstance(probe, Probe):
        yield show_probe(probe)
    elif probe is not None:
        yield section("What the layers know", note=f"Not shown: {probe}.")


def show_completions(some: Sequence[Completion]) -> Markup:
    names = ", ".join(shorten(one.name, 40) for one in some)
    sheet = photograph(to_png(draw_completions(some)), f"completions of the images {names}", pixelated=False)
    note = (
        "Images that were not learned from, in the palette's colors. The model saw what was given and drew the rest, pixel after "
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
