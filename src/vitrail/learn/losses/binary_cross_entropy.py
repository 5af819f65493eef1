"""The classification loss where an image has any number of labels: each class is a yes or no of its own.

b batch, k classes
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor


def binary_cross_entropy(
    logits: Float[Tensor, "b k"],
    targets: Bool[Tensor, "b k"] | Float[Tensor, "b k"],
    *,
    smoothing: float = 0.0,
    weights: Float[Tensor, "k"] | None = None,
    reduction: Literal["mean", "none"] = "mean",
) -> Float[Tensor, ""] | Float[Tensor, "b"]:
    """-w (t log p + (1 - t) log(1 - p)) with p = sigmoid(logits), mean over batch and classes.

    Targets are t = (1 - s) label + s/2: label smoothing with the two outcomes of each class as its classes. The weight w is
    `weights` of the class where the label is there, and 1 where it is not. Without smoothing this is torch's `pos_weight`;
    with it, that would multiply the s/2 of every absent label too, and a rare label of weight 100 would be said of everything.

    A label that is there by a share a, as mixing makes them, costs a times what its presence would and 1 - a times what its
    absence would. That is the same formula with the expected weight w = a `weights` + 1 - a and the weighted mean of both t.

    With the reduction "none" a loss for each image: the mean over its classes.
    """
    shares = targets.float()
    smooth = shares * (1.0 - smoothing) + 0.5 * smoothing
    if weights is None:
        factors = None
    elif targets.is_floating_point():
        present, absent = shares * weights, 1.0 - shares
        factors = present + absent
        heard = present * (1.0 - 0.5 * smoothing) + absent * 0.5 * smoothing
        smooth = heard / factors.clamp(min=torch.finfo(factors.dtype).tiny)
    else:
        factors = torch.where(targets, weights, 1.0)
    if reduction == "none":
        return F.binary_cross_entropy_with_logits(logits.float(), smooth, weight=factors, reduction="none").mean(1)
    return F.binary_cross_entropy_with_logits(logits.float(), smooth, weight=factors)
