"""The feed-forward layer of a block, each token by itself.

b batch, n tokens, d width
"""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Activation = Literal["gelu", "quick_gelu", "relu", "swiglu"]
# Numbers of the hidden layer: from MANY on it is made in pieces, which stay in the cache, unless a gradient needs all of it later. The
# allocator would ask the system for memory of that size each time anew, and a large image's narrow tokens take half the time so.
MANY, PIECE = 2**23, 2**21


def quick_gelu(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """x · sigmoid(1.702 x), near to GELU  [Hendrycks+ 2016, section 2]."""
    return x * (1.702 * x).sigmoid()


def swiglu(x: Float[Tensor, "*some e"]) -> Float[Tensor, "*some h"]:
    """silu(x_1) · x_2 of the two halves of x: one is the other's gate, e = 2 h  [Shazeer 2020, GLU variants]."""
    gate, value = x.chunk(2, dim=-1)
    return F.silu(gate) * value


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "quick_gelu": quick_gelu,
    "relu": F.relu,
    "swiglu": swiglu,
}


class FeedForward(nn.Module):
    """act(x W_1 + b_1) W_2 + b_2  [Vaswani+ 2017, eq. 2; GELU, exact, as Dosovitskiy+ 2021].

    Read the other way it is attention over parameters without the softmax: the rows of `expand.weight` are keys, the
    columns of `contract.weight` are values, and act(x · key) is how much of each value is read  [Sukhbaatar+ 2019].
    """

    def __init__(self, width: int, *, hidden: int, activation: Activation = "gelu", dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = nn.Linear(width, 2 * hidden if activation == "swiglu" else hidden)
        self.contract = nn.Linear(hidden, width)
        self.activation, self.dropout = ACTIVATIONS[activation], dropout

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or x.shape[:-1].numel() * self.expand.out_features < MANY:
            return self.at_once(x)
        pieces = torch.split(x.flatten(0, -2), max(1, PIECE // self.expand.out_features))
        return torch.cat([self.at_once(piece) for piece in pieces]).view_as(x)

    def at_once(self, x: Float[Tensor, "*some d"]) -> Float[Tensor, "*some d"]:
        x = self.activation(self.expand(x))
        if self.dropout:
            x = F.dropout(x, self.dropout, self.training)
        return self.contract(x)
