"""The softmax kernel: `attend` with whatever the position scheme has to say.

b batch, h heads, n queries, m keys, d key width, e value width, i chosen heads, j chosen queries
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from vitrail.nn.attention.kernel import EVERYTHING, WHOLE, Kernel, Part
from vitrail.nn.functional.attention import attend, attention_weights, causal_mask
from vitrail.scope import FusedRead, Scope


class SoftmaxKernel(Kernel):
    """softmax(q k^T / sqrt(d) + bias) v + read  [Vaswani+ 2017, eq. 1; Shaw+ 2018, eq. 3-4 for bias and read].

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
        if position is None or not position.reads:
            bias, mask = bias_and_mask(q, k, scope)
            return attend(q, k, v, bias=bias, mask=mask, causal=scope.causal, dropout=dropout)
        if isinstance(position, FusedRead) and (longer := position.lengthen(q, k, v, scope)) is not None:
            bias, mask = split_mask(q, scope)
            return position.shorten(
                attend(*longer, bias=bias, mask=mask, causal=scope.causal, scale=1.0, dropout=dropout), scope
            )
        weights = F.dropout(self.weights(q, k, scope), dropout)
        return weights @ v + position.read(weights, scope)

    def weights(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope, part: Part = WHOLE
    ) -> Float[Tensor, "b i j m"]:
        """A bias is formed for all and then cut, because a scheme knows heads and queries by their order; the product is not."""
        bias, mask = bias_and_mask(q, k, scope)
        finite = mask is scope.mask  # a position's bias is; numbers in the place of a mask need not be
        if scope.causal:
            seen = causal_mask(q.shape[-2], k.shape[-2], device=q.device)
            mask = seen if mask is None else mask & seen
        mask, bias = (None if found is None else part.of(found) for found in (mask, bias))
        return attention_weights(part.of(q), part.of_heads(k), bias=bias, mask=mask, finite=finite)


def bias_and_mask(
    q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope
) -> tuple[Float[Tensor, "#b #h #n m"] | None, Bool[Tensor, "#b #h #n m"] | None]:
    """What is added to the logits, the position's term and the mask's numbers, and who may attend to whom."""
    added, mask = split_mask(q, scope)
    if scope.position is None or not scope.position.biases:
        return added, mask
    bias = scope.position.bias(q, k, scope)
    return (bias if added is None else bias + added), mask


def split_mask(
    q: Float[Tensor, "b h n d"], scope: Scope
) -> tuple[Float[Tensor, "#b #h #n m"] | None, Bool[Tensor, "#b #h #n m"] | None]:
    """The mask as numbers that are added to the logits, or as who may attend to whom: one of the two, or neither."""
    mask = scope.mask
    return (None, mask) if mask is None or mask.dtype == torch.bool else (mask.to(q.dtype), None)
