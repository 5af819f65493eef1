"""Scope: what attention needs beside queries, keys and values. The encoder makes it once a forward pass.

b batch, h heads, n queries, m keys, w u widths of what they are made from, d key width, e value width, x of either made longer
g pictures of one shape, t tokens of each
"""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vitrail.tokens import Places, Windows


@runtime_checkable
class AttentionPosition(Protocol):
    """The places inside attention where a position scheme may act; `nn.positions.Position` has all of them."""

    biases: bool  # whether `bias` returns anything
    reads: bool  # whether `read` returns anything; it needs the weights themselves, so attention runs unfused unless `lengthen` can

    def sources(
        self, x: Float[Tensor, "b n w"], y: Float[Tensor, "b m u"], scope: "Scope"
    ) -> tuple[Float[Tensor, "b n w"], Float[Tensor, "b m u"]]: ...

    def project(self, key: nn.Linear, scope: "Scope") -> "Scope": ...

    def rotate(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: "Scope"
    ) -> tuple[Float[Tensor, "b h n d"], Float[Tensor, "b h m d"]]: ...

    def bias(self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: "Scope") -> Float[Tensor, "#b #h n m"]: ...

    def read(self, weights: Float[Tensor, "b h n m"], scope: "Scope") -> Float[Tensor, "b #h n e"]: ...

    def lengthen(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], v: Float[Tensor, "b h m e"], scope: "Scope"
    ) -> tuple[Float[Tensor, "b h n x"], Float[Tensor, "b h m x"], Float[Tensor, "b h m x"]] | None: ...

    def shorten(self, out: Float[Tensor, "b h n x"], scope: "Scope") -> Float[Tensor, "b h n e"]: ...


@runtime_checkable
class WindowPosition(AttentionPosition, Protocol):
    """One that a layer owns, and that it tells itself where tokens stand."""

    prepares_parameters: bool

    def prepare(self, queries: Places, keys: Places, device: torch.device | None = None) -> Any: ...


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


class Span(NamedTuple):
    """Pictures of one shape that stand side by side in a packed sequence, and what the attention among their own tokens needs."""

    start: int
    pictures: int
    tokens: int  # of each of them, prefix included
    scope: "Scope"  # as if they were a batch by themselves

    def of(self, x: Float[Tensor, "1 n w"]) -> Float[Tensor, "g t w"]:
        """Their part of the sequence, as that batch."""
        return x[0, self.start : self.start + self.pictures * self.tokens].view(self.pictures, self.tokens, -1)


class Scope(NamedTuple):
    """Who may look at whom, and from where."""

    queries: Places | None = None
    keys: Places | None = None  # None: the queries' own
    mask: Bool[Tensor, "#b #h #n m"] | None = None  # True: may attend
    causal: bool = False  # a query sees its own place and what stands before; the last query sees every key
    segments: Int[Tensor, "b n"] | None = None  # several pictures packed in one sequence: which of them; part of `mask`, or of:
    spans: tuple[
        Span, ...
    ] = ()  # all of a packed sequence: attention is computed within each picture alone, and nothing beside
    position: AttentionPosition | None = None  # None where the scheme does not act inside attention
    prepared: Any = None  # what the position computed once for all layers, such as a rotary table
    cache: AttentionCache | None = None  # keys and values of earlier steps, one for each layer
    arriving: "Scope | None" = (
        None  # with a cache: the new tokens among themselves, which is what `sources` and `rotate` are about
    )
    sizes: Float[Tensor, "b m"] | None = None  # how many tokens each key is the mean of, and weighs as; None: one each
    windows: Windows | None = None  # the batch is windows of pictures, and this is how they were cut
    carry: AttentionCarry | None = (
        None  # what the layers of this forward pass leave for those above, where a kernel declares "carry"
    )


OPEN = Scope()  # everything may attend to everything, no positions
