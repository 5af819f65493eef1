"""What a recurrent decoder carries from one step to the next, and what decoding keeps of a source.

b batch, w width, r rows that are chosen
"""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from vitrail.nn.recurrent.cell import Hidden, choose_rows
from vitrail.nn.recurrent.memory import Memory


class Carried(NamedTuple):
    """What one step hands to the next."""

    hidden: Hidden  # of all layers
    fed: Float[Tensor, "b w"] | None = None  # the last output, where it is fed into the next step; None before the first
    words: int = 0  # how many have been read

    def choose(self, rows: Int[Tensor, "r"]) -> "Carried":
        """Some rows of the batch, in their order."""
        fed = None if self.fed is None else self.fed.index_select(0, rows)
        return Carried(choose_rows(self.hidden, rows), fed, self.words)


class RecurrentState:
    """Satisfies `models.decoding`'s State: what was carried so far, or without a cache the beginning, and what is attended to."""

    def __init__(self, carried: Carried, memory: Memory | None, *, cached: bool) -> None:
        self.carried, self.memory, self.cached = carried, memory, cached

    def advance(self, carried: Carried) -> None:
        """After a step; without a cache the next one begins at the first word again."""
        if self.cached:
            self.carried = carried

    def reorder(self, rows: Int[Tensor, "r"]) -> None:
        self.carried = self.carried.choose(rows)
        self.memory = None if self.memory is None else self.memory.choose(rows)
