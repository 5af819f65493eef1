"""The encoder block: attention and feed-forward, each on a residual branch with a norm.

b batch, n tokens, d width
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.blocks.residual import RESIDUALS, NormKind, Residual, ResidualBranch, build_norm
from vitrail.scope import OPEN, Scope

NormOrder = Literal["pre", "post"]


class EncoderBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))  [Dosovitskiy+ 2021, eq. 2-3]; `norm` may also stand elsewhere, see `RESIDUALS`.

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
        self.residual = RESIDUALS[norm]
        self.attention_norm, self.attention = build_norm(norm_kind, width, eps=eps), attention
        self.mlp_norm, self.mlp = build_norm(norm_kind, width, eps=eps), mlp
        self.attention_branch, self.mlp_branch = (
            ResidualBranch(width, drop_path=drop_path, layer_scale=layer_scale, dropout=dropout) for _ in range(2)
        )

    def forward(
        self, x: Float[Tensor, "b n d"], scope: Scope = OPEN, residual: Residual | None = None
    ) -> Float[Tensor, "b _ d"]:
        """`residual` is that of a wrapper (packing, merging), which calls the block's own."""
        residual = residual or self.residual
        x = residual(x, self.attention_norm, self.attention, self.attention_branch, scope)
        return residual(x, self.mlp_norm, self.mlp, self.mlp_branch)
