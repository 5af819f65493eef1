"""Global attention: every decoder state reads all of the encoder's  [Luong+ 2015, section 3.1].

b batch, n queries, m places of the memory, w width, d width of keys
"""

from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from vitrail.nn.recurrent.additive import AdditiveScore
from vitrail.nn.recurrent.memory import Memory, Read, read

Score = Literal["dot", "general", "concat"]


class ProductScore(nn.Module):
    """score(h_t, s_j) = h_t^T s_j ("dot"), or h_t^T W s_j with a matrix of its own ("general")  [Luong+ 2015, eq. 8]."""

    def __init__(self, key: nn.Module) -> None:
        super().__init__()
        self.key = key

    def keys(self, states: Float[Tensor, "b m w"]) -> Float[Tensor, "b m d"]:
        return self.key(states)

    def forward(self, queries: Float[Tensor, "b n d"], keys: Float[Tensor, "b m d"]) -> Float[Tensor, "b n m"]:
        return queries @ keys.mT


def make_score(kind: Score, width: int) -> ProductScore | AdditiveScore:
    """The three scores of [Luong+ 2015, eq. 8] by name, for queries and states of one width."""
    if kind == "concat":
        return AdditiveScore(width, width, hidden=width)
    return ProductScore(nn.Identity() if kind == "dot" else nn.Linear(width, width, bias=False))


class GlobalAttention(nn.Module):
    """a_t = softmax_j(score(h_t, s_j)),  c_t = sum_j a_tj s_j  [Luong+ 2015, eq. 7]. Handed its score."""

    def __init__(self, score: nn.Module) -> None:
        super().__init__()
        self.score = score

    def prepare(self, states: Float[Tensor, "b m w"], mask: Bool[Tensor, "b m"]) -> Memory:
        return Memory(states, self.score.keys(states), mask)  # type: ignore[operator]

    def forward(self, queries: Float[Tensor, "b n w"], memory: Memory, *, first: int = 0) -> Read:
        """`first`, the number of the first query, is for attention that goes by it; this does not."""
        return read(self.score(queries, memory.keys), memory)
