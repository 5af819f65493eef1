"""A choice among codes that has a gradient.

b batch, k codes, gh gw grid
"""

import torch
from jaxtyping import Float
from torch import Tensor


def gumbel_noise(like: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """-log(-log u), u uniform: the arg max of logits with this added is a draw from their softmax  [Jang+ 2017, eq. 1]."""
    return -torch.empty_like(like, dtype=torch.float32).exponential_().log()  # -log u is exponential


def gumbel_softmax(
    logits: Float[Tensor, "b k gh gw"], noise: Float[Tensor, "b k gh gw"], temperature: float | Float[Tensor, ""]
) -> Float[Tensor, "b k gh gw"]:
    """softmax((logits + noise) / temperature) over the codes  [Jang+ 2017, eq. 2]: towards 0 the one-hot vector of the arg max."""
    return ((logits.float() + noise) / temperature).softmax(1)
