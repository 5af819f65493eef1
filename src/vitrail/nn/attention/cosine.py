"""The cosine kernel: how alike query and key point, whatever their lengths.

b batch, h heads, n queries, m keys, d key width, e value width, i chosen heads, j chosen queries
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.attention.kernel import EVERYTHING, WHOLE, Kernel, Part
from vitrail.nn.attention.softmax import SoftmaxKernel, bias_and_mask
from vitrail.nn.functional.attention import attend
from vitrail.scope import Scope

FIRST_SCALE, LARGEST_SCALE = 10.0, 100.0


class CosineKernel(Kernel):
    """softmax(s · cos(q, k) + bias) v with a learned s = min(exp(log_scale), 100) for each head  [Liu+ 2022, Swin-V2, eq. 2].

    1 / s is their temperature τ, never below 0.01. Longer queries cannot make attention sharper, which is what keeps large models
    from ending up with a few pairs of pixels.
    """

    name = "cosine"
    supports = EVERYTHING - {"read"}

    def __init__(self, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.full((heads,), math.log(FIRST_SCALE)))
        self.dropout = dropout

    def turn(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"]
    ) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h m d"]]:
        """Queries and keys whose product is s · cos(q, k)."""
        scale = self.log_scale.clamp(max=math.log(LARGEST_SCALE)).exp()[:, None, None]
        return F.normalize(q, dim=-1) * scale.to(q.dtype), F.normalize(k, dim=-1)

    def forward(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], v: Float[Tensor, "b h m e"], scope: Scope
    ) -> Float[Tensor, "b h n e"]:
        dropout, (bias, mask) = self.dropout if self.training else 0.0, bias_and_mask(q, k, scope)
        q, k = self.turn(q, k)
        return attend(q, k, v, bias=bias, mask=mask, causal=scope.causal, scale=1.0, dropout=dropout)

    def weights(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope, part: Part = WHOLE
    ) -> Float[Tensor, "b i j m"]:
        q, k = self.turn(q, k)
        return SoftmaxKernel().weights(q * q.shape[-1] ** 0.5, k, scope, part)  # which divides by sqrt(d)
