"""Which tokens sampling may draw: the k likeliest, or the fewest that hold a share p of the probability.

... any axes, v vocabulary
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


def keep_top_k(logits: Float[Tensor, "... v"], k: int) -> Float[Tensor, "... v"]:
    """-inf for all but the k largest  [Fan+ 2018]; what equals the least of them stays as well."""
    if k < 1:
        raise ValueError(f"top_k must be at least 1, got {k}")
    return keep_from(logits, rising(logits)[..., -min(k, logits.shape[-1]), None])


def keep_top_p(logits: Float[Tensor, "... v"], p: float) -> Float[Tensor, "... v"]:
    """-inf for all but the nucleus: the fewest tokens whose probabilities sum to at least p  [Holtzman+ 2020, section 3.1]; what
    equals the least of them stays as well."""
    if not 0 < p <= 1:
        raise ValueError(f"top_p must lie above 0 and at most at 1, got {p}")
    ranked = rising(logits)
    weights = (ranked - ranked[..., -1:]).exp()
    sums = weights.cumsum(dim=-1, dtype=torch.float64)  # of a token and of all that are less likely
    outside = sums <= (1 - p) * sums[..., -1:]  # likelier ones hold at least p
    return keep_from(logits, ranked.gather(-1, outside.sum(dim=-1, keepdim=True)))


def keep_from(logits: Float[Tensor, "... v"], least: Float[Tensor, "... 1"]) -> Float[Tensor, "... v"]:
    return logits.masked_fill(logits < least, -torch.inf)


def rising(x: Float[Tensor, "... v"]) -> Float[Tensor, "... v"]:
    """Sorted. On a processor by NumPy, which sorts a vocabulary in a twentieth of torch's time: less than a model's step."""
    return torch.from_numpy(np.sort(x.float().numpy(force=True))) if x.device.type == "cpu" else x.sort(dim=-1).values
