"""What a position scheme is: up to four places to act, each a function of coordinates.

b batch, h heads, n queries, m keys, d key width, e value width
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.scope import Scope
from vitrail.tokens import Places, Tokens


class Position(nn.Module):
    """No position at all: the scheme "none", and the neutral answer of every place for the schemes built on it.

    Without a position a transformer is blind to order: its encoder commutes with every permutation of the tokens.
    """

    attends: bool = False  # acts inside attention: `prepare`, `rotate`, `bias` or `read` does something
    biases: bool = False
    reads: bool = False

    def embed(self, tokens: Tokens) -> Tokens:
        """Added to the tokens, before the first block."""
        return tokens

    def prepare(self, queries: Places, keys: Places) -> Any:
        """Computed once a forward pass and kept in `scope.prepared` for all layers."""
        return None

    def rotate(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope
    ) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h m d"]]:
        """Queries and keys turned by where they stand (rotary)."""
        return q, k

    def bias(self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope) -> Float[Tensor, "#b #h n m"]:
        """Added to the logits (ALiBi, a table of offsets, Shaw's key term). Called where `biases` is True."""
        raise NotImplementedError(f"{type(self).__name__} declares a bias and has none")

    def read(self, weights: Float[Tensor, "b h n m"], scope: Scope) -> Float[Tensor, "b #h n e"]:
        """Added to what is read (Shaw's value term). Called where `reads` is True."""
        raise NotImplementedError(f"{type(self).__name__} declares a read term and has none")
