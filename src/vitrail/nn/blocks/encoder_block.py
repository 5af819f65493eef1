"""The encoder block: attention and feed-forward, each on a residual branch with a norm.

b batch, n tokens, m tokens that are left, h heads, e key width, d width
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.blocks.merging import Merged, TokenMerging
from vitrail.nn.blocks.residual import residual_branch, through
from vitrail.nn.norms import NormKind, build_norm
from vitrail.scope import OPEN, Scope

NormOrder = Literal["pre", "post"]


class EncoderBlock(nn.Module):
    """Pre-norm  x + f(norm(x))  [Dosovitskiy+ 2021, eq. 2-3], post-norm  norm(x + f(x))  [Vaswani+ 2017, section 3.1]  or
    res-post-norm  x + norm(f(x))  [Liu+ 2022, Swin-V2, section 3.2].

    Handed its parts; owns only what joins them. One that is handed `merging` gives back fewer tokens than it reads, and says which.
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
        merging: TokenMerging | None = None,
    ) -> None:
        super().__init__()
        self.order = norm
        self.dropout = dropout
        self.merging = merging
        self.attention_norm, self.attention = build_norm(norm_kind, width, eps=eps), attention
        self.mlp_norm, self.mlp = build_norm(norm_kind, width, eps=eps), mlp
        self.attention_branch = residual_branch(width, drop_path=drop_path, layer_scale=layer_scale)
        self.mlp_branch = residual_branch(width, drop_path=drop_path, layer_scale=layer_scale)

    def forward(self, x: Float[Tensor, "b n d"], scope: Scope = OPEN) -> Float[Tensor, "b n d"] | Merged:
        if self.merging is None:
            return self.think(self.joined(x, self.attention(self.asked(x), scope), scope), scope)
        self.merging.check(scope)
        read, keys = self.attention.with_keys(self.asked(x), scope)
        found: Merged = self.merging(self.joined(x, read, scope), keys, scope)
        return found._replace(x=self.think(found.x, scope))

    def asked(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """What attention reads."""
        return self.attention_norm(x) if self.order == "pre" else x

    def joined(self, x: Float[Tensor, "b n d"], read: Float[Tensor, "b n d"], scope: Scope) -> Float[Tensor, "b n d"]:
        """The tokens with what attention gave them."""
        x = x + self.through(self.attention_branch, self.attention_norm(read) if self.order == "res-post" else read, scope)
        return self.attention_norm(x) if self.order == "post" else x

    def think(self, x: Float[Tensor, "b m d"], scope: Scope) -> Float[Tensor, "b m d"]:
        """The feed-forward half, each token by itself."""
        thought = self.mlp(self.mlp_norm(x) if self.order == "pre" else x)
        x = x + self.through(self.mlp_branch, self.mlp_norm(thought) if self.order == "res-post" else thought, scope)
        return self.mlp_norm(x) if self.order == "post" else x

    def through(self, branch: nn.Sequential | None, y: Float[Tensor, "b n d"], scope: Scope) -> Float[Tensor, "b n d"]:
        segments = scope.segments if scope.spans else None
        return through(branch, y, dropout=self.dropout if self.training else 0.0, segments=segments)
