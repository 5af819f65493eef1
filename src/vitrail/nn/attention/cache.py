"""The key-value cache: what attention computed for earlier tokens, kept from one step of decoding to the next.

b batch, h heads, n new tokens, m tokens so far, w width of anything, d key width, e value width, r rows of the batch that stay

Without it, token t costs t steps' work again; with it, one token's work and one look at t keys  [Shazeer 2019, section 2.3].
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError

FIRST_ROOM = 32


class Grown:
    """A tensor that grows along its tokens, in a buffer that doubles: a step writes what is new and reads a slice."""

    def __init__(self) -> None:
        self.buffer: Float[Tensor, "b *h room w"] | None = None
        self.length = 0

    def extend(self, new: Float[Tensor, "b *h n w"]) -> Float[Tensor, "b *h m w"]:
        """Everything so far, the new ones last. Not a copy: the next call may write behind it, none writes over it."""
        new, start = new.detach(), self.length
        self.length = start + new.shape[-2]
        buffer = self.buffer
        if buffer is None or self.length > buffer.shape[-2]:
            buffer = new.new_empty(*new.shape[:-2], max(FIRST_ROOM, 2 * self.length), new.shape[-1])
            if self.buffer is not None:
                buffer.narrow(-2, 0, start).copy_(self.buffer.narrow(-2, 0, start))
            self.buffer = buffer
        buffer.narrow(-2, start, new.shape[-2]).copy_(new)
        return buffer.narrow(-2, 0, self.length)

    def reorder(self, rows: Int[Tensor, "r"]) -> None:
        if self.buffer is not None:
            old, self.buffer = self.buffer, self.buffer.new_empty(len(rows), *self.buffer.shape[1:])
            filled = self.buffer.narrow(-2, 0, self.length)
            torch.index_select(old.narrow(-2, 0, self.length), 0, rows, out=filled)  # the room behind stays as it is


class SelfCache:
    """Of one layer of self-attention: keys (turned already, where a position turns them) and values; and what positions ask for."""

    complete = False

    def __init__(self) -> None:
        self.keys, self.values, self.entered = Grown(), Grown(), Grown()
        self.made: Tensor | None = None

    def extend(
        self, k: Float[Tensor, "b h n d"] | None, v: Float[Tensor, "b h n e"] | None
    ) -> tuple[Float[Tensor, "b h m d"], Float[Tensor, "b h m e"]]:
        assert k is not None
        assert v is not None
        return self.keys.extend(k), self.values.extend(v)

    def enter(self, x: Float[Tensor, "b n w"]) -> Float[Tensor, "b m w"]:
        """What went into the block so far, the new ones last."""
        return self.entered.extend(x)

    def once(self, make: Callable[[], Tensor]) -> Tensor:
        """What depends on weights alone and not on tokens, made at the first step."""
        if self.made is None:
            self.made = make()
        return self.made

    def reorder(self, rows: Int[Tensor, "r"]) -> None:
        for grown in (self.keys, self.values, self.entered):
            grown.reorder(rows)


class MemoryCache:
    """Of one layer of cross-attention: keys and values of the memory, computed at the first step."""

    def __init__(self) -> None:
        self.complete = False
        self.held: tuple[Tensor, Tensor] | None = None

    def extend(
        self, k: Float[Tensor, "b h n d"] | None, v: Float[Tensor, "b h n e"] | None
    ) -> tuple[Float[Tensor, "b h m d"], Float[Tensor, "b h m e"]]:
        if self.held is None:
            assert k is not None
            assert v is not None
            self.held, self.complete = (k.detach().contiguous(), v.detach().contiguous()), True
        return self.held

    def reorder(self, rows: Int[Tensor, "r"]) -> None:
        if self.held is not None:
            self.held = self.held[0].index_select(0, rows), self.held[1].index_select(0, rows)


class Cache:
    """Of a whole decoder: a pair for each layer, and how many tokens all of them have seen."""

    def __init__(self, depth: int) -> None:
        self.length = 0
        self.own = [SelfCache() for _ in range(depth)]
        self.memory = [MemoryCache() for _ in range(depth)]

    def reorder(self, rows: Int[Tensor, "r"], *, memory: bool = True) -> None:
        """Row i becomes what row rows[i] was. `memory` False: the memory of each row is the same as before."""
        for own in self.own:
            own.reorder(rows)
        for held in self.memory if memory else ():
            held.reorder(rows)

    def unseen(self, ids: Int[Tensor, "b t"]) -> Int[Tensor, "b n"]:
        """Those of all tokens so far that are new."""
        if ids.shape[1] <= self.length:
            raise VitrailError(f"a step needs at least one new token: the cache has seen {self.length}, got {ids.shape[1]}")
        return ids[:, self.length :]


def is_identity(rows: Int[Tensor, "r"], count: int) -> bool:
    """Whether `rows` names all of `count` rows in their order."""
    return len(rows) == count and bool((rows == torch.arange(count, device=rows.device)).all())
