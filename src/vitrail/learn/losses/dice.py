"""The Dice loss of soft labels, in images and volumes alike, and its sum with cross-entropy.

b batch, k classes
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

SMOOTH = 1.0  # cells: a class that is nowhere, and nowhere expected, costs nothing, and one of a few has a bounded slope
Each = Literal["sample", "batch"]


def dice_loss(
    logits: Float[Tensor, "b k *size"],
    classes: Int[Tensor, "b *size"],
    *,
    ignore: int | None = None,
    each: Each = "sample",
    background: bool = False,
) -> Float[Tensor, ""]:
    """1 - mean of (2 Σ p g + s) / (Σ p + Σ g + s), p softmax and g one-hot  [Milletari+ 2016, eq. 1, with plain instead of squared sums, as
    nnU-Net's, Isensee+ 2021].

    By `each` "sample" sums are over its cells, and the mean over samples and classes: few crops, in which a class that is nowhere is not to
    be found either. By "batch" sums are over the cells of all samples, and the mean over the classes that are in them: images of many
    classes, most of which one image does not have.

    Cells of the class `ignore` do not count; class 0, the background, of samples only if asked for.
    """
    counted = torch.ones_like(classes, dtype=torch.bool) if ignore is None else classes != ignore
    if not bool(counted.any()):
        return 0.0 * logits.sum()
    shares = logits.float().softmax(1) * counted[:, None]
    truth = F.one_hot(torch.where(counted, classes, 0).long(), logits.shape[1]).movedim(-1, 1)  # b k *size
    truth = truth.to(shares) * counted[:, None]
    over = [*((0,) if each == "batch" else ()), *range(2, logits.ndim)]
    both, there = (shares * truth).sum(over), truth.sum(over)
    scores = (2 * both + SMOOTH) / (shares.sum(over) + there + SMOOTH)
    if each == "batch":
        return 1 - scores[there > 0].mean()
    return 1 - (scores if background else scores[:, 1:]).mean()


def dice_cross_entropy(
    logits: Float[Tensor, "b k *size"],
    classes: Int[Tensor, "b *size"],
    *,
    ignore: int | None = None,
    weight: Float[Tensor, "k"] | None = None,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Their sum  [Isensee+ 2021; Hatamizadeh+ 2022, eq. 5]: cross-entropy has a gradient at every cell, Dice does not mind how rare a class is."""
    none = -100 if ignore is None else ignore
    every = F.cross_entropy(logits.float(), classes, weight=weight, ignore_index=none, label_smoothing=smoothing)
    return every + dice_loss(logits, classes, ignore=ignore)
