"""Token merging inside a block: between attention and feed-forward, a number of tokens go into others.

b batch, h heads, n tokens, m tokens that are left, d width, e key width
"""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.functional.merging import match, merge
from vitrail.scope import Scope
from vitrail.tokens import Merge


class Merged(NamedTuple):
    """What a block that merges gives back: its tokens, how many each is the mean of, and which became one."""

    x: Float[Tensor, "b m d"]
    sizes: Float[Tensor, "b m"]
    step: Merge


class TokenMerging(nn.Module):
    """`count` tokens fewer, or half of those behind the prefix if that is less  [Bolya+ 2023, section 3]. No parameters."""

    def __init__(self, count: int) -> None:
        super().__init__()
        if count < 1:
            raise VitrailError(f"a block merges at least 1 token away, got {count}")
        self.count = count

    def check(self, scope: Scope) -> None:
        """Refuse what the tokens left would no longer fit: all of a scope but places of the stem is about the tokens there were."""
        if scope.spans or scope.segments is not None or scope.mask is not None:
            raise VitrailError("token merging needs pictures of one size: packed and padded ones have merge=0 only")
        if scope.causal or scope.cache is not None or scope.position is not None:
            raise VitrailError(
                "token merging needs attention without order, cache and positions of its own: have merge=0 there"
            )

    def forward(self, x: Float[Tensor, "b n d"], keys: Float[Tensor, "b h n e"], scope: Scope) -> Merged:
        prefix = 0 if scope.queries is None else scope.queries.prefix
        step = match(keys, min(self.count, (x.shape[1] - prefix) // 2), prefix=prefix)
        sizes = x.new_ones(x.shape[:2]) if scope.sizes is None else scope.sizes
        return Merged(*merge(x, sizes, step, prefix=prefix), step)
