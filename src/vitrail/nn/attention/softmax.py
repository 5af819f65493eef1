"""The softmax kernel: `attend` with whatever the position scheme has to say.

b batch, h heads, n queries, m keys, d key width, e value width, i chosen heads, j chosen queries
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitrail.nn.attention.kernel import EVERYTHING, Kernel
from vitrail.nn.attention.part import WHOLE, Part
from vitrail.nn.functional.attention import attend, attention_weights, causal_mask
from vitrail.scope import Scope


class SoftmaxKernel(Kernel):
    """softmax(q k^T / sqrt(d) + bias) v + read  [Vaswani+ 2017, eq. 1; Shaw+ 2018, eq. 3-4 for bias and read].

    Keys that are the mean of s tokens have a bias of log s  [Bolya+ 2023, eq. 1]: they weigh as their tokens would.

    `dropout` > 0 leaves torch's fused path, which is why it is 0 unless asked for.
    """

    name = "softmax"
    supports = EVERYTHING

    def __init__(self, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout

    def forward(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], v: Float[Tensor, "b h m e"], scope: Scope
    ) -> Float[Tensor, "b h n e"]:
        position, dropout = scope.position, self.dropout if self.training else 0.0
        if position is not None and position.reads:
            if (longer := position.lengthen(q, k, v, scope)) is not None:
                out = attend(
                    *longer, bias=size_bias(q, scope), mask=scope.mask, causal=scope.causal, scale=1.0, dropout=dropout
                )
                return position.shorten(out, scope)
            weights = F.dropout(self.weights(q, k, scope), dropout)
            return weights @ v + position.read(weights, scope)
        return attend(q, k, v, bias=all_biases(q, k, scope), mask=scope.mask, causal=scope.causal, dropout=dropout)

    def weights(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope, part: Part = WHOLE
    ) -> Float[Tensor, "b i j m"]:
        """A bias is formed for all and then cut, because a scheme knows heads and queries by their order; the product is not."""
        mask, bias = scope.mask, all_biases(q, k, scope)
        if scope.causal:
            seen = causal_mask(q.shape[-2], k.shape[-2], device=q.device)
            mask = seen if mask is None else mask & seen
        mask, bias = (None if found is None else part.of(found) for found in (mask, bias))
        return attention_weights(part.of(q), part.of_heads(k), bias=bias, mask=mask, finite=True)


def all_biases(q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope) -> Float[Tensor, "#b #h #n m"] | None:
    """What is added to the logits: the position's term and that of the keys' sizes."""
    position, sizes = scope.position, size_bias(q, scope)
    if position is None or not position.biases:
        return sizes
    bias = position.bias(q, k, scope)
    return bias if sizes is None else bias + sizes


def size_bias(q: Float[Tensor, "b h n d"], scope: Scope) -> Float[Tensor, "b 1 1 m"] | None:
    """log s of each key, for all heads and queries: the fused kernel reads such a mask as it stands."""
    return None if scope.sizes is None else scope.sizes.log()[:, None, None].to(q.dtype)
