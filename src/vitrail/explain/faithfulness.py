"""Faithfulness: whether the cells that a map names first are those that the model's answer hangs on.

b batch, ch channels, h w picture, gh gw grid, s points of a curve
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError, check_choice
from vitrail.explain.cells import pixel_cells
from vitrail.explain.evaluating import at_model, choose_target, evaluating, pick

Blank = Literal["mean", "blur"]
BLANKS: tuple[Blank, ...] = ("mean", "blur")
PICTURES = 64  # in one pass
BLUR = 1 / 8  # standard deviation, as a share of the shorter side


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The probability of each picture's class when a share of its cells was removed, or shown; the area lies under it, over [0, 1]."""

    shares: Float[Tensor, "s"]
    scores: Float[Tensor, "b s"]
    area: Float[Tensor, "b"]


def deletion_curve(
    model: Any,
    images: Float[Tensor, "b ch h w"],
    maps: Float[Tensor, "b gh gw"],
    target: Int[Tensor, "b"] | None = None,
    *,
    steps: int | None = None,
    blank: Blank = "mean",
) -> Curve:
    """Cells are removed, the map's largest first: the lower the area, the better the map  [Petsiuk+ 2018, RISE].

    `target` is by default the class that the model finds in the whole picture, whatever it says later. A point after every cell,
    or `steps` of them after the one without any change; cells of the same value go in raster order.

    What stands in a removed cell is the picture's own mean color, the same as `occlusion` hides with: nothing of the cell is
    left, so that both ends of every curve mean the same for every map, all and nothing. `blank="blur"` puts a Gaussian blur there,
    which keeps coarse color and makes no sharp edges: a ranking that holds with both does not come from the edges.
    """
    return _curve(model, images, maps, target, steps=steps, blank=blank, showing=False)


def insertion_curve(
    model: Any,
    images: Float[Tensor, "b ch h w"],
    maps: Float[Tensor, "b gh gw"],
    target: Int[Tensor, "b"] | None = None,
    *,
    steps: int | None = None,
    blank: Blank = "mean",
) -> Curve:
    """The same from the other end: a picture of nothing but its mean color, or blurred, gets its cells back, the map's largest
    first: the higher the area, the better the map  [Petsiuk+ 2018, RISE]."""
    return _curve(model, images, maps, target, steps=steps, blank=blank, showing=True)


def _curve(
    model: Any, images: Tensor, maps: Tensor, target: Tensor | None, *, steps: int | None, blank: Blank, showing: bool
) -> Curve:
    check_choice("blank", blank, BLANKS)
    if len(maps) != len(images):
        raise VitrailError(f"a curve needs a map for each picture, got {len(maps)} maps and {len(images)} pictures")
    if not maps.isfinite().all():
        raise VitrailError("a map with numbers that are not finite has no order of cells")
    with evaluating(model), torch.no_grad():
        images = at_model(model, images)
        target = choose_target(model, model(images), target)
        nothing = blanked(images, blank)
        rank = ranks(maps.to(images.device))  # b gh gw
        rows, columns = (pixel_cells(*pair, images.device) for pair in zip(images.shape[2:], maps.shape[1:], strict=True))
        rank = rank[:, rows][:, :, columns][:, None]  # b 1 h w
        counts = changes(maps[0].numel() if len(maps) else 1, steps).to(images.device)
        scores = []
        for some in torch.split(counts, max(1, PICTURES // max(1, len(images)))):
            changed = rank < some[:, None, None]  # b s h w
            shown = (changed if showing else ~changed)[:, :, None]
            pictures = torch.where(shown, images[:, None], nothing[:, None])  # b s ch h w
            found = probability(model, model(pictures.flatten(0, 1)), target.repeat_interleave(len(some)))
            scores.append(found.view(len(images), -1))
    together, shares = torch.cat(scores, 1), counts / counts[-1]
    return Curve(shares=shares, scores=together, area=torch.trapezoid(together, shares, dim=1))


def ranks(maps: Float[Tensor, "b gh gw"]) -> Int[Tensor, "b gh gw"]:
    """The place of each cell in the order of its map: 0 has the largest number; equal ones stand in raster order."""
    order = maps.flatten(1).argsort(dim=1, descending=True, stable=True)
    return order.argsort(dim=1).view(maps.shape)


def changes(cells: int, steps: int | None) -> Int[Tensor, "s"]:
    """How many cells are changed at each point of a curve: from none to all, at even distances as nearly as whole cells allow."""
    steps = cells if steps is None else steps
    if not 1 <= steps <= cells:
        raise VitrailError(f"steps must be from 1 to the number of cells, {cells}: got {steps}")
    return torch.arange(steps + 1) * cells // steps


def blanked(images: Float[Tensor, "b ch h w"], blank: Blank) -> Float[Tensor, "b ch h w"]:
    """What stands where a picture is removed: its mean color, or itself under a Gaussian blur, weights at the border renormalized."""
    if blank == "mean":
        return images.mean((2, 3), keepdim=True).expand_as(images)
    deviation = BLUR * min(images.shape[2:])
    down, across = (_blur(side, deviation, images) for side in images.shape[2:])
    return down @ images @ across.T


def _blur(side: int, deviation: float, like: Tensor) -> Float[Tensor, "{side} {side}"]:
    """Row i: the weights with which pixel i takes all pixels of an axis."""
    places = torch.arange(side, dtype=like.dtype, device=like.device)
    weights = torch.exp(-((places[:, None] - places) ** 2) / (2 * deviation**2))
    return weights / weights.sum(1, keepdim=True)


def probability(model: Any, logits: Float[Tensor, "b k"], target: Int[Tensor, "b"]) -> Float[Tensor, "b"]:
    """Of each picture's own class: by softmax, or where labels are independent, or there is but one, by the logistic function."""
    if getattr(model, "multi_label", False) or logits.shape[1] == 1:
        return pick(logits, target).sigmoid()
    return pick(logits.softmax(1), target)
