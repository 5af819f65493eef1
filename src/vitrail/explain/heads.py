"""How heads attend: how widely (entropy), and how differently from each other (divergence).

b images, l layers, h g heads, n queries, m keys
"""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.explain.distances import stack_layers
from vitrail.explain.look import Look


def head_entropy(look: Look, *, unit: Literal["bits", "share"] = "bits") -> Float[Tensor, "l h"]:
    """Mean over images and queries of -Σ_j A_ij log2 A_ij over all keys, prefix tokens included.

    In bits: b bits are as wide as an even look at 2^b keys. As a share of log2(m), the entropy of an even look at all m keys.
    """
    found = []
    for weights in look.seen.layers:
        bits = entropy(weights).mean(dim=(0, 2))
        found.append(bits if unit == "bits" else bits / max(math.log2(weights.shape[-1]), torch.finfo(bits.dtype).tiny))
    return stack_layers(found)


def head_divergence(look: Look) -> Float[Tensor, "l h g"]:
    """Mean over images and queries of the Jensen–Shannon divergence of two heads' rows, in bits  [Lin 1991, eq. 4.1].

    JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2: 0 where two heads attend alike, 1 where they share no key.
    """
    found = []
    for weights in look.seen.layers:
        heads = weights.shape[1]
        own = entropy(weights)  # b h n
        apart = weights.new_zeros(heads, heads)
        for one in range(heads):  # pair by pair: all at once would be heads times the weights
            for other in range(one + 1, heads):
                middle = entropy((weights[:, one] + weights[:, other]) / 2)
                apart[one, other] = apart[other, one] = (middle - (own[:, one] + own[:, other]) / 2).mean()
        found.append(apart.clamp(0, 1))
    return stack_layers(found)


def entropy(weights: Float[Tensor, "*rows m"]) -> Float[Tensor, "*rows"]:
    """-Σ_j p_j log2 p_j, in bits; 0 log 0 = 0."""
    return -torch.special.xlogy(weights, weights).sum(-1) / math.log(2)
