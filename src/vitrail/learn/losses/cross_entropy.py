"""The classification loss: one label per image, or shares of several that sum to 1.

b batch, k classes
"""

from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def cross_entropy(
    logits: Float[Tensor, "b k"],
    targets: Int[Tensor, "b"] | Float[Tensor, "b k"],
    *,
    smoothing: float = 0.0,
    weights: Float[Tensor, "k"] | None = None,
    reduction: Literal["mean", "none"] = "mean",
) -> Float[Tensor, ""] | Float[Tensor, "b"]:
    """-sum_k w_k t_k log softmax(logits)_k, with t = (1 - s) target + s/k  [Szegedy+ 2016, section 7].

    A target is a label, which stands for its one-hot row, or a row of shares, as mixing makes them. Summed over the batch and
    divided by the sum of its targets' weights, of a row of shares the expected one, sum_k w_k target_k: with all weights 1, the
    mean. So a row of shares costs the same as its labels would, each counted by its share.

    With the reduction "none" a loss for each image, so scaled that their mean is the loss of the batch.
    """
    if reduction == "none":
        each = F.cross_entropy(logits.float(), targets, weight=weights, label_smoothing=smoothing, reduction="none")
        if weights is None:
            return each
        heard = (targets * weights).sum(1) if targets.is_floating_point() else weights[targets]
        return each / heard.mean()
    if weights is None or not targets.is_floating_point():
        return F.cross_entropy(logits.float(), targets, weight=weights, label_smoothing=smoothing)
    # torch would divide by the number of rows here, though by the weights where the targets are labels.
    total = F.cross_entropy(logits.float(), targets, weight=weights, label_smoothing=smoothing, reduction="sum")
    return total / (targets * weights).sum()
