"""The loss of words: how surprised a model is by each right one.

v words of the vocabulary; any shape of positions, such as b sentences of t words
"""

from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.special_tokens import PAD


def word_cross_entropy(
    logits: Float[Tensor, "*positions v"],
    targets: Int[Tensor, "*positions"],
    *,
    smoothing: float = 0.0,
    ignore: int = PAD,
    reduction: Literal["mean", "sum", "none"] = "mean",
) -> Float[Tensor, "..."]:
    """-sum_v t_v log softmax(logits)_v with t = (1 - s) target + s/v  [Szegedy+ 2016, section 7; Vaswani+ 2017, section 5.4].

    The mean is over the targets that are not `ignore`, all of them alike: a long sentence counts for more than a short one. Without
    any it is 0. The reduction "none" gives every position's loss, 0 where the target is `ignore`.
    """
    each = F.cross_entropy(
        logits.flatten(0, -2).float(),
        targets.flatten().long(),
        ignore_index=ignore,
        label_smoothing=smoothing,
        reduction="none",
    )
    if reduction == "none":
        return each.view(targets.shape)
    return each.sum() if reduction == "sum" else each.sum() / (targets != ignore).sum().clamp(min=1)
