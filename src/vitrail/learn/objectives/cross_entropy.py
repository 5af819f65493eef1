"""The classification loss: one label a picture.

b batch, k classes
"""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def cross_entropy(
    logits: Float[Tensor, "b k"],
    labels: Int[Tensor, "b"],
    *,
    smoothing: float = 0.0,
    weights: Float[Tensor, "k"] | None = None,
) -> Float[Tensor, ""]:
    """-sum_k w_k t_k log softmax(logits)_k, with t = (1 - s) one-hot + s/k  [Szegedy+ 2016, section 7].

    Summed over the batch and divided by the sum of its labels' weights: with all weights 1, the mean.
    """
    return F.cross_entropy(logits.float(), labels, weight=weights, label_smoothing=smoothing)
