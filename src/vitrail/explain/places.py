"""What one place of an image reads in every attention layer of a segmenter's encoder, head by head.

b images (one), ch channels, h w image, a heads, gh gw grid
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.cells import cell_tokens, spatial, to_grid
from vitrail.explain.record import Seen, record
from vitrail.explain.windows import window_read
from vitrail.models.segmentation_maps import whole_cells
from vitrail.models.segmenter import Segmenter
from vitrail.models.swin import Swin
from vitrail.tokens import Places

Place = tuple[float, float]  # row and column, from 0 to 1, as shares of the image's sides


@dataclass(frozen=True, kw_only=True)
class PlaceReading:
    """A map of each layer, which sums to 1 less what goes to prefix tokens and padding of windows."""

    layers: list[Float[Tensor, "_ _ _"]]  # heads, rows, columns: stages differ
    covers: tuple[float, float]  # how many times as high and as wide as the image the grids are: it is padded to whole cells


@torch.no_grad()
def read_from_place(model: Segmenter, image: Float[Tensor, "b ch h w"], place: Place) -> PlaceReading:
    """One pass, of which a row of each layer and head is kept; where a layer attends within windows, these."""
    if len(image) != 1 or not all(0 <= share < 1 for share in place):
        raise VitrailError(
            f"a place is row and column from 0 to 1 of one image, got {place[0]:.3g} {place[1]:.3g} of {len(image)}"
        )
    size = whole_cells(image.shape[2:], model.stride)
    covers = size[0] / image.shape[2], size[1] / image.shape[3]
    backbone, queries = model.backbone, None
    if not isinstance(backbone, Swin):
        grid = backbone.tokenizer.grid(size)
        queries = cell_tokens(find_cell(place, covers, grid), Places(grid, prefix=backbone.config.prefix))
    with record(backbone, queries=queries) as seen:
        model(image)
    return PlaceReading(layers=[read_layer(seen, entry, place, covers) for entry in range(len(seen.layers))], covers=covers)


def read_layer(seen: Seen, entry: int, place: Place, covers: Place) -> Float[Tensor, "a gh gw"]:
    weights, kept = seen.layers[entry], seen.about(entry)
    assert kept.query_places is not None  # encoders tell where their tokens stand
    assert kept.key_places is not None
    cell = find_cell(place, covers, kept.query_places.grid)
    if kept.windows is not None:
        return torch.cat([window_read(head, kept.windows, cell) for head in weights.unbind(1)])
    [row] = kept.rows(cell_tokens(cell, kept.query_places))
    return to_grid(weights[0, :, row], kept.key_places)


def find_cell(place: Place, covers: Place, grid: tuple[int, ...]) -> tuple[int, int]:
    """The cell (row, column) that a place of the image lies in."""
    rows, columns = spatial(grid)
    return int(place[0] / covers[0] * rows), int(place[1] / covers[1] * columns)
