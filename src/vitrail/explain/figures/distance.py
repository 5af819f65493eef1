"""Attention distance by layer and head  [Dosovitskiy+ 2021, fig. 7 right].

l layers, h heads
"""

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from vitrail.explain.figures.dots import draw_dots


def draw_distance(distance: Float[Tensor, "l h"], *, even: float | None = None) -> Figure:
    """`even` is the distance of attention that gives every patch the same: `even_distance(look.grid, look.image_size)`."""
    return draw_dots(
        distance.double().cpu().numpy(),
        title="How far attention reaches",
        unit="mean distance, pixels",
        reference=even,
        reference_words="even attention",
    )
