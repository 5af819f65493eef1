"""What some cells of an image read of it: maps of reference points, as in BEiT's figure of self-attention.

b batch, ch channels, h w image, q points, gh gw grid
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.cells import spatial
from vitrail.explain.look import look
from vitrail.explain.maps import Reduce, attention_map
from vitrail.models.classifier import Classifier

Cell = tuple[int, int]  # row, column


@dataclass(frozen=True, kw_only=True)
class References:
    """`maps[i, j]` is what the cell `points[j]` reads of image i; `figures.draw_references` draws those of one image."""

    points: tuple[Cell, ...]
    maps: Float[Tensor, "b q gh gw"]


def reference_points(
    model: Classifier,
    images: Float[Tensor, "b ch h w"],
    points: Sequence[Cell] | None = None,
    *,
    layer: int = -1,
    head: int | None = None,
    reduce: Reduce = "mean",
) -> References:
    """Attention of each point's own query over all cells, in one layer: the heads' mean, or one head  [Bao+ 2022, figure 2].

    The points are cells of the layer's grid, spread over it unless given. A map sums to 1 less what goes to prefix tokens.
    """
    seen = look(model, images, layers=[layer])
    grid = spatial(seen.places(seen.seen.find(layer))[0].grid)
    chosen = spread_points(grid) if points is None else tuple(points)
    if not chosen:
        raise VitrailError("reference points: one cell at least is needed, got none")
    maps = [attention_map(seen, layer=layer, head=head, query=point, reduce=reduce) for point in chosen]
    return References(points=chosen, maps=torch.stack(maps, dim=1))


def spread_points(grid: Cell, *, rows: int = 2, columns: int = 3) -> tuple[Cell, ...]:
    """The middles of `rows` x `columns` equal parts of a grid, fewer where it is smaller."""
    middles = [
        [(2 * number + 1) * size // (2 * min(count, size)) for number in range(min(count, size))]
        for size, count in zip(grid, (rows, columns), strict=True)
    ]
    return tuple((row, column) for row in middles[0] for column in middles[1])
