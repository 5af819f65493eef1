"""Occlusion: hide a part of the image and see how much the answer suffers. Slow, and true by construction.

b batch, ch channels, h w image, gh gw grid, k classes, p patches that are hidden, one at a time
"""

from functools import partial
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.errors import VitrailError, check_choice
from vitrail.explain.cells import features_grid
from vitrail.explain.evaluating import at_model, choose_target, evaluating, pick
from vitrail.explain.hiding import ask_parts, blanked
from vitrail.models.classifier import Classifier

Fill = Literal["mean", "zero"]


def occlusion(
    model: Classifier,
    images: Float[Tensor, "b ch h w"],
    target: Int[Tensor, "b"] | None = None,
    *,
    size: int | None = None,
    fill: Fill = "mean",
) -> Float[Tensor, "b gh gw"]:
    """How much the log-odds of `target` drop when a cell is hidden; negative where hiding it helps  [Zeiler+ 2014, section 4.2].

    A square of `size` cells (1 by default) goes over the grid of the last tokens or map, and a cell has the mean over all squares
    that hide it. `fill` is what hides: each image's own mean color, or zero, the color that the preprocessing subtracts.
    Log-odds, log p/(1 - p), do not saturate as the probability does.
    """
    check_choice("fill", fill, ("mean", "zero"))
    with evaluating(model), torch.no_grad():
        images = at_model(model, images)
        features = model.forward_features(images)
        logits = model.forward_head(features)
        target = choose_target(model, logits, target)
        before = log_odds(logits, target, multi_label=model.multi_label)  # b
        hidden = squares(features_grid(features), 1 if size is None else size, images.device)  # p gh gw
        nothing = blanked(images, "mean") if fill == "mean" else images.new_zeros(1, 1, 1, 1)
        after = ask_parts(model, images, nothing, ~hidden[None], target, partial(log_odds, multi_label=model.multi_label))
        covered = hidden.to(images.dtype)
        return torch.einsum("bp,pyx->byx", before[:, None] - after, covered) / covered.sum(0)


def squares(grid: tuple[int, int], size: int, device: torch.device | None = None) -> Bool[Tensor, "p gh gw"]:
    """Every square of size × size cells that lies on the grid."""
    if not 1 <= size <= min(grid):
        raise VitrailError(
            f"size is the side of what is hidden, from 1 to {min(grid)} cells on a grid of {grid[0]}x{grid[1]}, got {size}"
        )
    rows, columns = (
        (torch.arange(side, device=device) - torch.arange(side - size + 1, device=device)[:, None]) for side in grid
    )  # how far each cell is behind each first cell
    inside_rows, inside_columns = ((behind >= 0) & (behind < size) for behind in (rows, columns))
    return (inside_rows[:, None, :, None] & inside_columns[None, :, None, :]).flatten(0, 1)


def log_odds(logits: Float[Tensor, "b k"], target: Int[Tensor, "b"], *, multi_label: bool = False) -> Float[Tensor, "b"]:
    """log p/(1 - p) of each target: its logit less the log-sum-exp of the others, or where labels are independent the logit itself."""
    own = pick(logits, target)
    if multi_label or logits.shape[1] == 1:
        return own
    return own - logits.scatter(1, target[:, None], -torch.inf).logsumexp(1)
