"""How a model is made inside: how far and how widely its heads attend, what it looks for first, what its positions know.

l layers, h heads
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.distances import attention_distance, even_distance
from vitrail.explain.figures.distance import draw_distance
from vitrail.explain.figures.filters import draw_filters
from vitrail.explain.figures.heads import draw_divergence, draw_entropy
from vitrail.explain.figures.similarity import SHOWN, draw_similarity
from vitrail.explain.filters import Filters, principal_filters
from vitrail.explain.heads import head_divergence, head_entropy
from vitrail.explain.look import Look
from vitrail.explain.positions import Similarity
from vitrail.models.classifier import Classifier
from vitrail.rendering import to_svg
from vitrail.report.page import Section
from vitrail.report.parts import Drawing, Insight, Insights


class HeadNumbers(NamedTuple):
    """Of every head, mean over some images."""

    distance: Float[Tensor, "l h"]  # pixels
    even: float | None  # the same of attention to all patches alike; None where layers have grids of their own
    entropy: Float[Tensor, "l h"] | None = None  # bits
    keys: int | None = None  # that each query has; None where layers differ
    divergence: Float[Tensor, "l h h"] | None = None  # bits


@dataclass(frozen=True, kw_only=True)
class Interior:
    """What can be said of a model whatever the image, or nearly so."""

    images: int = 0  # that the numbers of heads are a mean over
    heads: HeadNumbers | None = None
    filters: Filters | None = None
    missing: Mapping[str, str] = field(default_factory=dict)  # what is not shown -> why


def measure_heads(look: Look, *, distance_only: bool = False) -> HeadNumbers:
    grids = {look.places(entry)[1].grid for entry in range(len(look.seen.layers))}
    even = even_distance(look.grid, look.image_size) if len(grids) == 1 else None
    if distance_only:
        return HeadNumbers(attention_distance(look), even)
    keys = {weights.shape[-1] for weights in look.seen.layers}
    return HeadNumbers(
        attention_distance(look), even, head_entropy(look), keys.pop() if len(keys) == 1 else None, head_divergence(look)
    )


def mean_heads(some: Sequence[HeadNumbers]) -> HeadNumbers:
    """The mean over images, each measured by itself."""

    def mean(parts: list[Tensor | None]) -> Tensor | None:
        there = [part for part in parts if part is not None]
        return torch.stack(there).mean(0) if there else None

    distance = mean([one.distance for one in some])
    assert distance is not None
    return some[0]._replace(
        distance=distance, entropy=mean([one.entropy for one in some]), divergence=mean([one.divergence for one in some])
    )


def find_filters(model: Classifier) -> Filters | str:
    try:
        return principal_filters(model)
    except VitrailError as error:
        return str(error)


def interior_figures(interior: Interior) -> dict[str, Callable[[], Figure]]:
    """Name of the file -> what draws it."""
    found: dict[str, Callable[[], Figure]] = {}
    if (heads := interior.heads) is not None:
        found["distance"] = lambda: draw_distance(heads.distance, even=heads.even)
        if (entropy := heads.entropy) is not None:
            found["entropy"] = lambda: draw_entropy(entropy, keys=heads.keys)
        if (divergence := heads.divergence) is not None:
            found["divergence"] = lambda: draw_divergence(divergence)
    if (filters := interior.filters) is not None:
        found["filters"] = lambda: draw_filters(filters)
    return found


WORDS: Mapping[str, str] = {
    "distance": "How far from a patch lies what it reads, in pixels of the image as the model sees it: low dots are heads that "
    "look around themselves, those near the dashed line look everywhere.",
    "entropy": "How widely a head spreads its attention: b bits are as wide as an even look at 2ᵇ tokens.",
    "divergence": "How differently two heads of a layer attend: 0 where they attend alike and one could do, 1 where they share "
    "no token.",
    "filters": "What the first layer answers to, the strongest first.",
}


def show_interior(interior: Interior, drawings: Mapping[str, str] | None = None) -> Section:
    """`drawings`: SVG of the figures by name, where they have been drawn already."""
    drawings = drawings or {name: to_svg(draw()) for name, draw in interior_figures(interior).items()}
    parts = [Insight(Drawing(svg, WORDS[name]), note=WORDS[name], kind=name) for name, svg in drawings.items()]
    some = f"Numbers of heads: mean over {interior.images} image{'s' * (interior.images != 1)}. " if interior.heads else ""
    return Section("Inside", [Insights(parts)], note=some + describe_missing(interior.missing))


def describe_missing(missing: Mapping[str, str]) -> str:
    """What is not shown, in a sentence for each reason."""
    reasons = dict.fromkeys(missing.values())
    return " ".join(
        f"Not shown: {', '.join(what for what, why in missing.items() if why == reason)} ({reason})." for reason in reasons
    )


def show_positions(similarity: Similarity | str) -> Section:
    """What a model's positions know of the grid  [Dosovitskiy+ 2021, fig. 7 middle]."""
    if isinstance(similarity, str):
        return Section("Positions", note=similarity)
    note = (
        "How alike the position of a patch is to that of every patch: each small map belongs to the patch at its place in the "
        "grid, and shows the whole grid. Maps that brighten at their own row and column mean that the model knows its neighbors. "
        f"Shown: {similarity.words}."
    )
    rows, columns = similarity.maps.shape[:2]
    some = f" {min(rows, SHOWN)}×{min(columns, SHOWN)} of {rows}×{columns} maps." if max(rows, columns) > SHOWN else ""
    figure = Drawing(to_svg(draw_similarity(similarity)), "similarity of positions", kind="positions")
    return Section("Positions", [figure], note=note + some)
