"""The classification head: pool, then one linear layer or a small MLP.

b batch, d width, k classes
"""

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.heads.pooling import AttentionPool, Pool, pool_class, pool_mean
from vitrail.tokens import Tokens


class ClassificationHead(nn.Module):
    """y = W pool(z), or with `hidden` W_2 tanh(W_1 pool(z)), the MLP of pretraining  [Dosovitskiy+ 2021, section 3.1].

    `norm` reads what pooling made of tokens that nothing has normed yet  [Bao+ 2022, BEiT's code; He+ 2022, MAE's, fine-tuned].
    With no classes it gives the features that the last linear layer would have read.
    """

    def __init__(
        self,
        width: int,
        *,
        classes: int,
        pool: Pool = "class",
        hidden: int | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.pool_by: Pool = pool
        self.pool = AttentionPool(width) if pool == "attention" else None
        before = [] if norm is None else [norm]
        before += [nn.Linear(width, hidden), nn.Tanh()] if hidden else []
        self.before = nn.Sequential(*before) if before else nn.Identity()
        self.features_width = hidden or width
        self.output: nn.Module = nn.Linear(self.features_width, classes) if classes else nn.Identity()

    def features(self, tokens: Tokens) -> Float[Tensor, "b d"]:
        if self.pool is not None:
            return self.before(self.pool(tokens))
        return self.before(pool_class(tokens) if self.pool_by == "class" else pool_mean(tokens))

    def forward(self, tokens: Tokens) -> Float[Tensor, "b k"]:
        return self.output(self.features(tokens))
