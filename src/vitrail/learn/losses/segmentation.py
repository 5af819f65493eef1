"""How far a segmenter's answers are from masks. Pixels of no class (`ignore`) count in none of these, and give no gradient.

b images, k classes, h w image, n pixels of a class
"""

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Int, Integer
from torch import Tensor

from vitrail.data.annotations import IGNORE
from vitrail.learn.losses.dice import dice_loss

SegmentationLoss = Literal["ce", "dice", "focal", "ce+dice"]
FOCUS = 2.0  # gamma of the focal loss  [Lin+ 2017, table 1b]


def segmentation_loss(
    logits: Float[Tensor, "b k h w"],
    masks: Int[Tensor, "b h w"],
    *,
    kind: SegmentationLoss = "ce",
    weights: Float[Tensor, "k"] | None = None,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The loss of a name; "ce+dice" is the sum of the two."""
    logits = logits.float()
    parts = {
        "ce": lambda: pixel_cross_entropy(logits, masks, weights=weights, smoothing=smoothing),
        "dice": lambda: dice_loss(logits, masks, ignore=IGNORE, each="batch"),
        "focal": lambda: focal_loss(logits, masks, weights=weights),
    }
    return sum((parts[name]() for name in kind.split("+")), start=logits.new_zeros(()))


def pixel_cross_entropy(
    logits: Float[Tensor, "b k h w"],
    masks: Int[Tensor, "b h w"],
    *,
    weights: Float[Tensor, "k"] | None = None,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """-sum_i w_{y_i} log p_i(y_i) / sum_i w_{y_i} over the pixels i that have a class; 0 where none has."""
    if not bool((masks != IGNORE).any()):
        return 0.0 * logits.sum()
    weight = None if weights is None else weights.to(logits)
    return F.cross_entropy(logits, masks.long(), weight=weight, ignore_index=IGNORE, label_smoothing=smoothing)


def focal_loss(
    logits: Float[Tensor, "b k h w"],
    masks: Int[Tensor, "b h w"],
    *,
    weights: Float[Tensor, "k"] | None = None,
    focus: float = FOCUS,
) -> Float[Tensor, ""]:
    """-(1 - p_i(y_i))^gamma log p_i(y_i), weighted as the cross-entropy  [Lin+ 2017, eq. 4]: sure pixels hardly count."""
    known = masks != IGNORE
    if not bool(known.any()):
        return 0.0 * logits.sum()
    log_p = logits.log_softmax(1).permute(0, 2, 3, 1)[known]  # n k
    truth = masks[known].long()
    own = log_p.gather(1, truth[:, None])[:, 0]
    weight = torch.ones_like(own) if weights is None else weights.to(own)[truth]
    return -(weight * (1 - own.exp()) ** focus * own).sum() / weight.sum().clamp(min=1e-12)


def balanced_weights(pixels: Integer[np.ndarray, "k"], around: Integer[np.ndarray, "k"]) -> Float32[np.ndarray, "k"]:
    """Median frequency balancing: w_c = median(f) / f_c, f_c = pixels of the class / pixels of the images that it is in
    [Eigen and Fergus 2015, section 6.3.2]. A class that was not met gets 1."""
    met = pixels > 0
    share = pixels / np.maximum(around, 1)
    middle = np.median(share[met]) if met.any() else 1.0
    return np.where(met, middle / np.where(met, share, 1.0), 1.0).astype(np.float32)
