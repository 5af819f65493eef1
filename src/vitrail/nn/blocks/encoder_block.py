"""The encoder block: attention and feed-forward, each on a residual branch with a norm.

b batch, n tokens, d width
"""

from functools import partial
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.blocks.residual import residual_branch, through
from vitrail.nn.norms import NormKind, build_norm
from vitrail.scope import OPEN, Scope

NormOrder = Literal["pre", "post"]


class EncoderBlock(nn.Module):
    """Pre-norm  x + f(norm(x))  [Dosovitskiy+ 2021, eq. 2-3], post-norm  norm(x + f(x))  [Vaswani+ 2017, section 3.1]  or
    res-post-norm  x + norm(f(x))  [Liu+ 2022, Swin-V2, section 3.2].

    Handed its parts; owns only what joins them.
    """

    def __init__(
        self,
        width: int,
        *,
        attention: nn.Module,
        mlp: nn.Module,
        norm: NormOrder | Literal["res-post"] = "pre",
        norm_kind: NormKind = "layer",
        drop_path: float = 0.0,
        layer_scale: float | None = None,
        dropout: float = 0.0,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        self.order = norm
        self.dropout = dropout
        self.attention_norm, self.attention = build_norm(norm_kind, width, eps=eps), attention
        self.mlp_norm, self.mlp = build_norm(norm_kind, width, eps=eps), mlp
        self.attention_branch = residual_branch(width, drop_path=drop_path, layer_scale=layer_scale)
        self.mlp_branch = residual_branch(width, drop_path=drop_path, layer_scale=layer_scale)

    def forward(self, x: Float[Tensor, "b n d"], scope: Scope = OPEN) -> Float[Tensor, "b n d"]:
        add = partial(through, dropout=self.dropout if self.training else 0.0, segments=scope.segments if scope.spans else None)
        if self.order == "pre":
            x = x + add(self.attention_branch, self.attention(self.attention_norm(x), scope))
            return x + add(self.mlp_branch, self.mlp(self.mlp_norm(x)))
        if self.order == "res-post":
            x = x + add(self.attention_branch, self.attention_norm(self.attention(x, scope)))
            return x + add(self.mlp_branch, self.mlp_norm(self.mlp(x)))
        x = self.attention_norm(x + add(self.attention_branch, self.attention(x, scope)))
        return self.mlp_norm(x + add(self.mlp_branch, self.mlp(x)))
