"""The Dice loss of soft labels, in pictures and volumes alike, and its sum with cross-entropy.

b batch, k classes
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

SMOOTH = 1.0  # voxels: a class that is nowhere, and nowhere expected, costs nothing and divides by no zero


def dice_loss(
    logits: Float[Tensor, "b k *size"],
    classes: Int[Tensor, "b *size"],
    *,
    ignore: int | None = None,
    background: bool = False,
) -> Float[Tensor, ""]:
    """1 - mean over samples and classes of (2 Σ p g + s) / (Σ p + Σ g + s), sums over cells, p softmax and g one-hot  [Milletari+ 2016, eq. 1, with
    plain instead of squared sums, as nnU-Net's, Isensee+ 2021].

    Cells of the class `ignore` do not count; class 0, the background, only if asked for.
    """
    shares = logits.float().softmax(1)
    counted = torch.ones_like(classes, dtype=torch.bool) if ignore is None else classes != ignore
    truth = F.one_hot(torch.where(counted, classes, 0), logits.shape[1]).movedim(-1, 1)  # b k *size
    truth, shares = truth * counted[:, None], shares * counted[:, None]
    over = list(range(2, logits.ndim))
    both, either = (shares * truth).sum(over), shares.sum(over) + truth.sum(over)
    scores = (2 * both + SMOOTH) / (either + SMOOTH)
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
