"""Where a detector looks for an object: what the query of a box reads of the picture, block by block and head by head, and what the
place in the box's middle reads in the encoder.

b pictures (one), ch channels, h w picture, l blocks, a heads, gh gw grid, m tokens of all levels together
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.record import record

CROSS = ".cross_attention"  # how the decoder's layers that read the picture are called
OWN = "encoder.blocks."  # and those of the detector's encoder, which is not its backbone's


@dataclass(frozen=True, kw_only=True)
class BoxLook:
    """One box, and where the model looked for it. Maps are shares: each sums to 1."""

    query: int
    label: int
    score: float
    box: tuple[float, float, float, float]  # cx cy w h, in shares of the picture's sides
    decoder: Float[Tensor, "l a gh gw"]
    encoder: Float[Tensor, "a gh gw"] | None  # of its last block, from the middle of the box; None without an encoder


@torch.no_grad()
def look_at_boxes(model: Any, image: Float[Tensor, "b ch h w"], *, threshold: float, most: int) -> list[BoxLook]:
    """The surest boxes of a picture, one of each query, from a score on; at most so many."""
    if len(image) != 1:
        raise VitrailError(f"boxes are looked at in one picture at a time, got {len(image)}")
    grids = [tokens.grid for tokens in model.backbone.forward_intermediates(image, model.config.levels)]
    with record(model) as seen:
        detected = model(image)
    logits = detected.logits[-1, 0].float()
    scores, labels = (logits.sigmoid() if model.config.focal else logits.softmax(-1)[:, :-1]).max(-1)
    cross = torch.stack([weights[0] for name, weights in zip(seen.names, seen.layers, strict=True) if name.endswith(CROSS)])
    own = [weights[0] for name, weights in zip(seen.names, seen.layers, strict=True) if name.startswith(OWN)]
    found = []
    for query in scores.argsort(descending=True, stable=True)[:most].tolist():
        if scores[query] < threshold:
            break
        cx, cy, w, h = detected.boxes[-1, 0, query].tolist()
        encoder = None
        if own:
            encoder = on_finest(own[-1][:, find_token(grids, cx, cy)], grids)
        found.append(
            BoxLook(
                query=query,
                label=int(labels[query]),
                score=float(scores[query]),
                box=(cx, cy, w, h),
                decoder=on_finest(cross[:, :, query], grids),
                encoder=encoder,
            )
        )
    return found


def find_token(grids: Sequence[tuple[int, ...]], x: float, y: float) -> int:
    """The token of the finest level that stands at a place, in shares of the picture's sides."""
    finest = max(range(len(grids)), key=lambda level: grids[level][0] * grids[level][1])
    rows, columns = grids[finest]
    row, column = (min(count - 1, max(0, int(share * count))) for share, count in ((y, rows), (x, columns)))
    return sum(grid[0] * grid[1] for grid in grids[:finest]) + row * columns + column


def on_finest(weights: Float[Tensor, "*some m"], grids: Sequence[tuple[int, ...]]) -> Float[Tensor, "*some gh gw"]:
    """Shares of the tokens of all levels as one map of the finest: what a coarse cell has is spread evenly over it."""
    size = max(grids, key=lambda grid: grid[0] * grid[1])
    total = weights.new_zeros(*weights.shape[:-1], *size)
    for part, grid in zip(torch.split(weights, [grid[0] * grid[1] for grid in grids], dim=-1), grids, strict=True):
        maps = part.reshape(-1, 1, *grid)
        spread = F.interpolate(maps, size=tuple(size), mode="nearest")
        mass = spread.sum((-2, -1), keepdim=True).clamp(min=1e-12)
        spread = spread * (maps.sum((-2, -1), keepdim=True) / mass)  # also where one grid is no multiple of the other
        total = total + spread.reshape(total.shape)
    return total
