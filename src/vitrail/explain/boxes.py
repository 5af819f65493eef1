"""Where a detector looks for an object: what the query of a box reads of the image, block by block and head by head, and what the
place in the box's middle reads in the encoder.

b images (one), ch channels, h w image, l blocks, a heads, gh gw grid, q queries, m tokens of all levels together
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.record import attention_layers, record
from vitrail.models.detections import Detected
from vitrail.models.detr import Detector

CROSS = ".cross_attention"  # how the decoder's layers that read the image are called
OWN = "encoder.blocks."  # and those of the detector's encoder, which is not its backbone's


@dataclass(frozen=True, kw_only=True)
class Sight:
    """One pass over an image: its answers, and what every query and every place read."""

    detected: Detected
    grids: Sequence[tuple[int, ...]]  # of the levels
    decoder: Float[Tensor, "l a q m"]
    encoder: list[Float[Tensor, "a m m"]]  # of its blocks; none at all is fine

    def read_by_query(self, query: int) -> Float[Tensor, "l a gh gw"]:
        """What a query reads in each block of the decoder, head by head. Each map sums to 1."""
        return on_finest(self.decoder[:, :, query], self.grids)

    def read_from_middle(self, query: int) -> list[Float[Tensor, "a gh gw"]]:
        """What the place in the middle of the query's box reads in each block of the encoder, head by head. Each map sums to 1."""
        x, y = self.detected.boxes[-1, 0, query, :2].tolist()
        token = find_token(self.grids, x, y)
        return [on_finest(weights[:, token], self.grids) for weights in self.encoder]


@dataclass(frozen=True, kw_only=True)
class BoxLook:
    """One box, and where the model looked for it. Maps are shares: each sums to 1."""

    query: int
    label: int
    score: float
    box: tuple[float, float, float, float]  # cx cy w h, in shares of the image's sides
    decoder: Float[Tensor, "l a gh gw"]
    encoder: Float[Tensor, "a gh gw"] | None  # of its last block, from the middle of the box; None without an encoder


@torch.no_grad()
def see_boxes(model: Detector, image: Float[Tensor, "b ch h w"]) -> Sight:
    """A pass over one image, of which what the backbone does is not kept."""
    if len(image) != 1:
        raise VitrailError(f"boxes are looked at in one image at a time, got {len(image)}")
    grids = [tokens.grid for tokens in model.backbone.forward_intermediates(image, model.config.levels)]
    wanted = [number for number, name in enumerate(attention_layers(model)) if name.endswith(CROSS) or name.startswith(OWN)]
    with record(model, layers=wanted) as seen:
        detected = model(image)
    named = list(zip(seen.names, seen.layers, strict=True))
    return Sight(
        detected=detected,
        grids=grids,
        decoder=torch.stack([weights[0] for name, weights in named if name.endswith(CROSS)]),
        encoder=[weights[0] for name, weights in named if name.startswith(OWN)],
    )


def look_at_boxes(model: Detector, image: Float[Tensor, "b ch h w"], *, threshold: float, most: int) -> list[BoxLook]:
    """The surest boxes of an image, one of each query, from a score on; at most so many."""
    sight = see_boxes(model, image)
    logits = sight.detected.logits[-1, 0].float()
    scores, labels = (logits.sigmoid() if model.config.focal else logits.softmax(-1)[:, :-1]).max(-1)
    found = []
    for query in scores.argsort(descending=True, stable=True)[:most].tolist():
        if scores[query] < threshold:
            break
        cx, cy, w, h = sight.detected.boxes[-1, 0, query].tolist()
        from_middle = sight.read_from_middle(query)
        found.append(
            BoxLook(
                query=query,
                label=int(labels[query]),
                score=float(scores[query]),
                box=(cx, cy, w, h),
                decoder=sight.read_by_query(query),
                encoder=from_middle[-1] if from_middle else None,
            )
        )
    return found


def find_token(grids: Sequence[tuple[int, ...]], x: float, y: float) -> int:
    """The token of the finest level that stands at a place, in shares of the image's sides."""
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
