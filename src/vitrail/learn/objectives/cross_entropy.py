"""The classification loss.

b batch, k classes
"""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def cross_entropy(logits: Float[Tensor, "b k"], labels: Int[Tensor, "b"], *, smoothing: float = 0.0) -> Float[Tensor, ""]:
    """-sum_k t_k log softmax(logits)_k, mean over the batch, with t = (1 - s) one-hot + s/k  [Szegedy+ 2016, section 7]."""
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)
