"""What writes tokens one after another, and what it remembers: the two shapes that greedy, beam search and sampling rely on.

b batch, t tokens so far, v vocabulary, r rows after a change of the batch
"""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class State(Protocol):
    """What a model keeps between two steps: the encoded source and, with a cache, the keys and values of the tokens so far."""

    def reorder(self, rows: Int[Tensor, "r"]) -> None:
        """Row i of the batch becomes what row rows[i] was: beams are repeated and permuted, finished rows are left out.
        May come before the first step as well as after any."""
        ...


@runtime_checkable
class Stepping(Protocol):
    """p(next token | source, tokens so far), a token at a time."""

    @property
    def vocabulary(self) -> int: ...

    def begin(self, source: Any, *, cached: bool = True) -> State:
        """Reads the source once. It is what the model reads: ids "b m", images "b ch h w", or nothing for a language model
        (None, or the number of rows). Without a cache every step computes all tokens anew: slower, the same logits."""
        ...

    def step(self, ids: Int[Tensor, "b t"], state: State) -> Float[Tensor, "b v"]:
        """Logits of the token that follows, in a tensor that the caller may write to. `ids` are all tokens so far, of equal length and never PAD; with a cache only
        those are computed that the state has not seen: the whole prompt in the first step, one token in every other."""
        ...
