"""What a classification head reads: how much of each of the last tokens.

b batch, n tokens
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitrail.nn.heads.classification import ClassificationHead, Pool
from vitrail.tokens import Tokens


def plain_shares(tokens: Tokens, pool_by: Pool, *, distilled: bool = False) -> Float[Tensor, "b n"]:
    """All of the class token, or an even share of each of the image's own tokens (of a merged one as many as it is made of), as `pool_class` and `pool_mean` read them. Of two heads
    whose mean is the answer, half of the class token and half of the distillation token."""
    shares = tokens.x.new_zeros(tokens.x.shape[:2])
    if pool_by == "class":
        read = 2 if distilled else 1
        shares[:, :read] = 1 / read
        return shares
    counted = tokens.sizes if tokens.mask is None else tokens.mask
    real = shares[:, tokens.prefix :] + 1 if counted is None else counted[:, tokens.prefix :].to(shares)
    return F.pad(real / real.sum(1, keepdim=True).clamp(min=1), (tokens.prefix, 0))


def pool_weights(head: ClassificationHead, tokens: Tokens) -> Float[Tensor, "b n"] | None:
    """The weights of attention pooling, with 0 for prefix tokens; None where the head pools in another way."""
    return None if head.pool is None else F.pad(head.pool.weights(tokens), (tokens.prefix, 0))
