"""Restoring an image of any size tile by tile, with memory for one tile and no seam.

b images (one, mostly), ch channels, h w image, h2 w2 the image that comes out, n pixels of a side
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError

WHOLE, TILE = 512, 256  # pixels a side: what is restored in one piece, and the pieces of anything larger


class Tile(NamedTuple):
    """A part of a side: pixels begin to end, and how much its answer counts at each of their enlargements."""

    begin: int
    end: int
    weight: Float[Tensor, "n"]


@runtime_checkable
class Tiled(Protocol):
    """What restores an image of any size, and says how its parts depend on what is around them; see `Restorer`."""

    @property
    def scale(self) -> int: ...

    @property
    def tile_step(self) -> int: ...

    @property
    def reach(self) -> int | None: ...

    def __call__(self, image: Float[Tensor, "b ch h w"], /) -> Any: ...


def restore_tiled(
    model: Tiled,
    image: Float[Tensor, "b ch h w"],
    *,
    tile: int,
    overlap: int | None = None,
    on_tile: Callable[[int, int], None] | None = None,
) -> Float[Tensor, "b ch h2 w2"]:
    """What `model(image)` gives, from tiles of at most `tile` pixels a side, of which each sees `overlap` beyond what it answers for.

    Tiles begin where the model's own cells do. With an overlap of at least the model's reach this is the model's answer to the whole
    image, up to rounding; else neighbors are blended over all that both have seen, sin² against cos². By default the overlap is an
    eighth of the tile, or the reach if that is less. `on_tile` receives how many are done, of how many.
    """
    step, reach = model.tile_step, model.reach
    side, margin = resolve_tiles(tile, overlap, step=step, reach=reach)
    ramp = margin - reach if reach is not None and margin >= reach else margin
    rows, columns = (
        cut_side(length, side, margin, step=step, ramp=ramp, scale=model.scale) for length in (image.shape[2], image.shape[3])
    )
    out: Tensor | None = None
    for number, (row, column) in enumerate((row, column) for row in rows for column in columns):
        with torch.no_grad():
            part = model(image[:, :, row.begin : row.end, column.begin : column.end])
        if out is None:
            size = (model.scale * image.shape[2], model.scale * image.shape[3])
            out = part.new_zeros(*part.shape[:2], *size)
        part = part * (row.weight[:, None] * column.weight).to(part)  # not in place: a model may give back what it was given
        top, left = model.scale * row.begin, model.scale * column.begin
        out[:, :, top : top + part.shape[2], left : left + part.shape[3]] += part
        if on_tile is not None:
            on_tile(number + 1, len(rows) * len(columns))
    assert out is not None
    return out


def resolve_tiles(tile: int, overlap: int | None, *, step: int, reach: int | None) -> tuple[int, int]:
    """Both as whole steps: the tile not larger than was asked for, the overlap not smaller."""
    side = tile // step * step
    if overlap is None:
        most = max(0, (side - step) // 2 // step * step)  # so that a tile answers for something
        margin = min(side // 8 if reach is None else min(side // 8, reach), most)
    else:
        margin = overlap
    margin = -(-margin // step) * step
    if (overlap is not None and overlap < 0) or side < step + 2 * margin:
        least = step + 2 * max(0, margin)
        raise VitrailError(
            f"a tile has an overlap on both sides and at least {step} pixels between them: "
            f"with an overlap of {max(0, margin)} it must be {least} or more, got tile {tile}, overlap {overlap}"
        )
    return side, margin


def cut_side(length: int, side: int, margin: int, *, step: int, ramp: int, scale: int) -> list[Tile]:
    """The tiles along a side. Their weights sum to 1 at every pixel: each is the difference of two rising steps, r_k - r_(k+1)."""
    begins = [0]
    while begins[-1] + side < length:  # the last one reaches back, so that it sees as much as the others do
        begins.append(min(begins[-1] + side - 2 * margin, -(-(length - side) // step) * step))
    tiles = []
    for number, begin in enumerate(begins):
        end = min(begin + side, length)
        places = torch.arange(scale * begin, scale * end) + 0.5
        weight = torch.ones_like(places) if not number else rise(places, scale * (begin + margin), scale * ramp)
        if number + 1 < len(begins):
            weight = weight - rise(places, scale * (begins[number + 1] + margin), scale * ramp)
        tiles.append(Tile(begin, end, weight))
    return tiles


def rise(places: Float[Tensor, "n"], middle: int, ramp: int) -> Float[Tensor, "n"]:
    """From 0 to 1 over the pixels middle - ramp to middle + ramp, as sin² does; at once where the ramp is 0."""
    if not ramp:
        return (places > middle).float()
    share = ((places - middle) / (2 * ramp) + 0.5).clamp(0, 1)
    return (math.pi / 2 * share).sin() ** 2
