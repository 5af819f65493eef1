"""Faithfulness: whether the cells that a map names first are those that the model's answer hangs on.

b batch, ch channels, h w image, gh gw grid, s points of a curve
"""

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError, check_choice
from vitrail.explain.evaluating import at_model, choose_target, evaluating, pick
from vitrail.explain.hiding import BLANKS, Blank, ask_parts, blanked
from vitrail.models.classifier import to_probabilities
from vitrail.models.model import Model


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The probability of each image's class when a share of its cells was removed, or shown; the area lies under it, over [0, 1]."""

    shares: Float[Tensor, "s"]
    scores: Float[Tensor, "b s"]
    area: Float[Tensor, "b"]


def deletion_curve(
    model: nn.Module,
    images: Float[Tensor, "b ch h w"],
    maps: Float[Tensor, "b gh gw"],
    target: Int[Tensor, "b"] | None = None,
    *,
    steps: int | None = None,
    blank: Blank = "mean",
) -> Curve:
    """Cells are removed, the map's largest first: the lower the area, the better the map  [Petsiuk+ 2018, RISE].

    `target` is by default the class that the model finds in the whole image, whatever it says later. A point after every cell,
    or `steps` of them after the one without any change; cells of the same value go in raster order.

    What stands in a removed cell is the image's own mean color, the same as `occlusion` hides with: nothing of the cell is
    left, so that both ends of every curve mean the same for every map, all and nothing. `blank="blur"` puts a Gaussian blur there,
    which keeps coarse color and makes no sharp edges: a ranking that holds with both does not come from the edges.
    """
    return _curve(model, images, maps, target, steps=steps, blank=blank, showing=False)


def insertion_curve(
    model: nn.Module,
    images: Float[Tensor, "b ch h w"],
    maps: Float[Tensor, "b gh gw"],
    target: Int[Tensor, "b"] | None = None,
    *,
    steps: int | None = None,
    blank: Blank = "mean",
) -> Curve:
    """The same from the other end: an image of nothing but its mean color, or blurred, gets its cells back, the map's largest
    first: the higher the area, the better the map  [Petsiuk+ 2018, RISE]."""
    return _curve(model, images, maps, target, steps=steps, blank=blank, showing=True)


def _curve(
    model: nn.Module, images: Tensor, maps: Tensor, target: Tensor | None, *, steps: int | None, blank: Blank, showing: bool
) -> Curve:
    check_choice("blank", blank, BLANKS)
    if len(maps) != len(images):
        raise VitrailError(f"a curve needs a map for each image, got {len(maps)} maps and {len(images)} images")
    if not maps.isfinite().all():
        raise VitrailError("a map with numbers that are not finite has no order of cells")
    with evaluating(model), torch.no_grad():
        images = at_model(model, images)
        target = choose_target(model, model(images), target)
        nothing, rank = blanked(images, blank), ranks(maps.to(images.device))  # b gh gw
        counts = changes(maps[0].numel() if len(maps) else 1, steps).to(images.device)
        changed = rank[:, None] < counts[:, None, None]  # b s gh gw
        score = partial(probability, model)
        scores = ask_parts(model, images, nothing, changed if showing else ~changed, target, score)
    shares = counts / counts[-1]
    return Curve(shares=shares, scores=scores, area=torch.trapezoid(scores, shares, dim=1))


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


def probability(model: nn.Module, logits: Float[Tensor, "b k"], target: Int[Tensor, "b"]) -> Float[Tensor, "b"]:
    """Of each image's own class: by softmax, or where labels are independent, or there is but one, by the logistic function."""
    alone = (isinstance(model, Model) and model.multi_label) or logits.shape[1] == 1
    return pick(to_probabilities(logits, multi_label=alone), target)
