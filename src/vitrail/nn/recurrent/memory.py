"""What a recurrent decoder attends to, made ready once for all steps.

b batch, n queries, m places of the memory, w width, d width of keys, r rows that are chosen
"""

from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor


class Memory(NamedTuple):
    """States to read, and how a query sees them."""

    states: Float[Tensor, "b m w"]
    keys: Float[Tensor, "b m d"]  # the part of the scores that no query changes
    mask: Bool[Tensor, "b m"]  # True: a place that is there

    def choose(self, rows: Int[Tensor, "r"]) -> "Memory":
        """Some rows of the batch, in their order."""
        return Memory(*(part.index_select(0, rows) for part in self))


class Read(NamedTuple):
    """What attention gives: context_i = sum_j weights_ij states_j."""

    context: Float[Tensor, "b n w"]
    weights: Float[Tensor, "b n m"]  # each row sums to 1


def read(scores: Float[Tensor, "b n m"], memory: Memory) -> Read:
    """The mean of the states by softmax(scores) over the places that are there."""
    weights = scores.masked_fill(~memory.mask[:, None], float("-inf")).softmax(-1)
    return Read(weights @ memory.states, weights)
