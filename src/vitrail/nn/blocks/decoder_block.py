"""The decoder block: self-attention, cross-attention to a memory, feed-forward, each on a residual branch with a norm.

b batch, n tokens, m tokens of the memory, d width, u width of the memory
"""

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.blocks.encoder_block import NormOrder
from vitrail.nn.blocks.residual import RESIDUALS, ResidualBranch
from vitrail.scope import OPEN, Scope


class DecoderBlock(nn.Module):
    """x + self(x), x + cross(x, memory), x + mlp(x), each with its norm before or behind it  [Vaswani+ 2017, section 3.1].

    Handed its parts; owns only what joins them. Without cross-attention it would be the encoder block.
    """

    def __init__(
        self,
        width: int,
        *,
        attention: nn.Module,
        cross_attention: nn.Module,
        mlp: nn.Module,
        norm: NormOrder = "pre",
        drop_path: float = 0.0,
        layer_scale: float | None = None,
        dropout: float = 0.0,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        self.residual = RESIDUALS[norm]
        self.attention_norm, self.attention = nn.LayerNorm(width, eps=eps), attention
        self.cross_attention_norm, self.cross_attention = nn.LayerNorm(width, eps=eps), cross_attention
        self.mlp_norm, self.mlp = nn.LayerNorm(width, eps=eps), mlp
        self.attention_branch, self.cross_attention_branch, self.mlp_branch = (
            ResidualBranch(width, drop_path=drop_path, layer_scale=layer_scale, dropout=dropout) for _ in range(3)
        )

    def forward(
        self, x: Float[Tensor, "b n d"], scope: Scope, memory: Float[Tensor, "b m u"], memory_scope: Scope = OPEN
    ) -> Float[Tensor, "b n d"]:
        residual, cross_norm, cross_branch = self.residual, self.cross_attention_norm, self.cross_attention_branch
        x = residual(x, self.attention_norm, self.attention, self.attention_branch, scope)
        x = residual(x, cross_norm, self.cross_attention, cross_branch, memory_scope, memory)
        return residual(x, self.mlp_norm, self.mlp, self.mlp_branch)
