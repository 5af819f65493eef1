"""Scope: what attention needs beside queries, keys and values. The encoder makes it once a forward pass.

b batch, h heads, n queries, m keys, w u widths of what they are made from, d key width, e value width, x of either made longer
"""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from vitrail.tokens import Places


@runtime_checkable
class AttentionPosition(Protocol):
    """Where a position scheme may act inside attention; `nn.positions.Position` has all of them.

    With a cache, `sources` and `rotate` are about the tokens that are new, `bias` and `read` about these and all keys.
    """

    biases: bool  # whether `bias` returns anything
    reads: bool  # whether `read` returns anything; it needs the weights themselves: attention is not fused, unless by a `FusedRead`

    def sources(
        self, x: Float[Tensor, "b n w"], y: Float[Tensor, "b m u"], scope: "Scope"
    ) -> tuple[Float[Tensor, "b n w"], Float[Tensor, "b m u"]]: ...

    def rotate(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: "Scope"
    ) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h m d"]]: ...

    def bias(self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: "Scope") -> Float[Tensor, "#b #h n m"]: ...

    def read(self, weights: Float[Tensor, "b h n m"], scope: "Scope") -> Float[Tensor, "b #h n e"]: ...


class KeyedPosition:
    """Of a scheme whose rows go through the layer's own W_K."""

    def project(self, key: nn.Linear, scope: "Scope") -> "Scope":
        """The scope, with what depends on W_K."""
        raise NotImplementedError


class FusedRead:
    """Of a scheme whose `bias` and `read` are in plain attention, softmax(q k^T) v, over longer queries, keys and values."""

    def lengthen(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], v: Float[Tensor, "b h m e"], scope: "Scope"
    ) -> tuple[Float[Tensor, "b h n x"], Float[Tensor, "b h m x"], Float[Tensor, "b h m x"]] | None:
        """The longer ones; None where they would cost more than they save."""
        raise NotImplementedError

    def shorten(self, out: Float[Tensor, "b h n x"], scope: "Scope") -> Float[Tensor, "b h n e"]:
        """The result, from what was read with the longer ones."""
        raise NotImplementedError


@runtime_checkable
class AttentionCache(Protocol):
    """What a layer keeps from one step of decoding to the next; `nn.attention.cache` has both kinds."""

    complete: (
        bool  # whether `extend` has all keys and values already and wants no others (those of a memory, behind the first step)
    )

    def extend(
        self, k: Float[Tensor, "b h n d"] | None, v: Float[Tensor, "b h n e"] | None
    ) -> tuple[Float[Tensor, "b h m d"], Float[Tensor, "b h m e"]]: ...


@runtime_checkable
class PositionCache(Protocol):
    """A cache that also keeps what a position scheme wants kept."""

    def enter(self, x: Float[Tensor, "b n w"]) -> Float[Tensor, "b m w"]: ...

    def once(self, make: Callable[[], Tensor]) -> Tensor: ...


@runtime_checkable
class AttentionCarry(Protocol):
    """What layers of one forward pass leave for those above them; `nn.attention.carry.Carry`."""

    def below(self, layer: int) -> Tensor | None: ...

    def leave(self, layer: int, value: Tensor) -> None: ...

    def within(self, part: Hashable) -> "AttentionCarry": ...


class Scope(NamedTuple):
    """Who may look at whom, and from where."""

    queries: Places | None = None
    keys: Places | None = None  # None: the queries' own
    mask: Bool[Tensor, "#b #h #n m"] | Float[Tensor, "#b #h #n m"] | None = (
        None  # True: may attend; or numbers added to the logits
    )
    causal: bool = False  # a query sees its own place and what stands before; the last query sees every key
    position: AttentionPosition | None = None  # None where the scheme does not act inside attention
    prepared: Any = None  # what the position computed once for all layers, such as a rotary table
    cache: AttentionCache | None = None  # keys and values of earlier steps, one for each layer
    carry: AttentionCarry | None = None  # what the layers of this pass leave for those above, where a kernel declares "carry"


OPEN = Scope()  # everything may attend to everything, no positions
