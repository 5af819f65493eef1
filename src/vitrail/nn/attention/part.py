"""Some heads and some queries of an attention: what is asked for where all of them would be too much.

b batch, h heads, n queries, m keys, d width, i chosen heads, j chosen queries
"""

from typing import NamedTuple

from jaxtyping import Int, Shaped
from torch import Tensor


class Part(NamedTuple):
    """Heads and queries by number, each at most once; None: all. What is cut is a copy, so that the whole can be let go."""

    heads: Int[Tensor, "i"] | None = None
    queries: Int[Tensor, "j"] | None = None

    def of_heads(self, x: Shaped[Tensor, "b h m d"]) -> Shaped[Tensor, "b i m d"]:
        """Of keys and values."""
        return x if self.heads is None or x.shape[1] == 1 else x.index_select(1, self.heads)

    def of(self, x: Shaped[Tensor, "b h n d"]) -> Shaped[Tensor, "b i j d"]:
        """Of queries, weights, a bias or a mask; one that stands for all (a size of 1) stays."""
        x = self.of_heads(x)
        return x if self.queries is None or x.shape[2] == 1 else x.index_select(2, self.queries)


WHOLE = Part()
