"""Which tokens sampling may draw: the k likeliest, or the fewest that hold a share p of the probability.

... any axes, v vocabulary
"""

import torch
from jaxtyping import Float
from torch import Tensor


def keep_top_k(logits: Float[Tensor, "... v"], k: int) -> Float[Tensor, "... v"]:
    """-inf for all but the k largest; what equals the k-th stays as well  [Fan+ 2018, section 5.4]."""
    if k < 1:
        raise ValueError(f"top_k must be at least 1, got {k}")
    least = logits.topk(min(k, logits.shape[-1])).values[..., -1:]
    return logits.masked_fill(logits < least, -torch.inf)


def keep_top_p(logits: Float[Tensor, "... v"], p: float) -> Float[Tensor, "... v"]:
    """-inf for all but the nucleus: the fewest tokens whose probabilities sum to at least p  [Holtzman+ 2020, eq. 2]."""
    if not 0 < p <= 1:
        raise ValueError(f"top_p must lie above 0 and at most at 1, got {p}")
    if p == 1:  # rounding must not cost the least likely tokens
        return logits
    ranked, order = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = ranked.softmax(dim=-1, dtype=torch.float64)
    before = probabilities.cumsum(dim=-1) - probabilities  # what likelier tokens hold
    outside = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= p)
    return logits.masked_fill(outside, -torch.inf)
