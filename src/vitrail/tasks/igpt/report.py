"""The report of a model of pixels: its completions, and what its layers know.

h w image, ch channels, s samples
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vitrail.data.dataset import DataSet, Split
from vitrail.data.examples import read_some
from vitrail.explain.figures.probe import draw_probe
from vitrail.explain.probe import Probe
from vitrail.learn.training.state import Row
from vitrail.models.igpt import ImageGPT
from vitrail.rendering import shorten, to_png, to_svg
from vitrail.report.page import Section
from vitrail.report.parts import Drawing, Insight, Insights, Poster
from vitrail.tasks.igpt.predict import Completion, complete_images, draw_completions
from vitrail.tasks.stages import Scored, Setup

SHOWN, SAMPLES = 8, 6  # completions


def sections(scored: Scored[DataSet], setup: Setup[Any, DataSet, Any], rows: Sequence[Row]) -> Iterable[Section]:
    model = scored.model
    completions = show_some(model, setup.data["val"], seed=setup.options.seed) if model.config.causal else ()
    yield from pixel_sections(completions, scored.extras)


def commands(run: str, model: ImageGPT) -> Mapping[str, str]:
    return {
        **({"Complete images": f"vitrail complete {run} IMAGE... --out DIR"} if model.config.causal else {}),
        "Score it again": f"vitrail eval {run}",
    }


def show_some(model: ImageGPT, split: Split, *, seed: int) -> Sequence[Completion]:
    """Completions of some images, evenly chosen."""
    some = read_some(split, model.preprocessing, SHOWN)
    if some is None:
        return ()
    names = [split.name(index) for index in some.indices]
    return complete_images(model, some.images, names=names, samples=SAMPLES, seed=seed)


def pixel_sections(completions: Sequence[Completion], probe: Probe | str | None) -> Iterator[Section]:
    """What a model of pixels draws and what its layers know; `probe` may be why there is none."""
    if completions:
        yield show_completions(completions)
    if isinstance(probe, Probe):
        yield show_probe(probe)
    elif probe is not None:
        yield Section("What the layers know", note=f"Not shown: {probe}.")


def show_completions(some: Sequence[Completion]) -> Section:
    names = ", ".join(shorten(one.name, 40) for one in some)
    sheet = Poster(to_png(draw_completions(some)), f"completions of the images {names}")
    note = (
        "Images that were not learned from, in the palette's colors. The model saw what was given and drew the rest, pixel after "
        "pixel, each from its own probabilities: samples differ because the model does not know which one is meant."
    )
    return Section("Completions", [sheet], note=note)


def show_probe(probe: Probe) -> Section:
    note = (
        "A linear classifier reads the labels, which the model has never seen, from the mean of the tokens behind each block. "
        "The ring is the block that validation chooses."
    )
    best = f"{100 * probe.test[probe.best]:.1f} % behind block {probe.best + 1}"
    figure = Drawing(to_svg(draw_probe(probe)), f"accuracy of a linear probe by block: {best}")
    return Section("What the layers know", [Insights([Insight(figure)])], note=note)
