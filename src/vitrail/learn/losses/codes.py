"""What keeps a visual vocabulary in use: how far the choice of codes is from choosing all alike.

b batch, k codes, gh gw grid
"""

import math

from jaxtyping import Float
from torch import Tensor


def choice_divergence(logits: Float[Tensor, "b k gh gw"]) -> Float[Tensor, ""]:
    """KL(q || uniform) = log k + sum q log q in each cell, mean over all  [Ramesh+ 2021, eq. 1]; 0 where every code is as likely."""
    log_shares = logits.float().log_softmax(1)
    return (log_shares.exp() * log_shares).sum(1).mean() + math.log(logits.shape[1])


def usage_divergence(logits: Float[Tensor, "b k gh gw"]) -> Float[Tensor, ""]:
    """KL of the mean of q over all cells of the batch to uniform: 0 where all codes are used alike, however sure each choice is.

    `choice_divergence` = this + what a cell's choice tells about the cell. To hold this down alone does not make choices vague.
    """
    mean = logits.float().softmax(1).mean((0, 2, 3))
    return (mean * mean.clamp(min=1e-12).log()).sum() + math.log(logits.shape[1])  # a code with a share of 0 has a gradient too
