"""A recurrent decoder: text tokens so far -> cell -> attention over the source -> the next token; and what is carried from one step to the next.

b batch, n tokens, w width, u width of what the cell reads, r rows that are chosen
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.nn.recurrent.attention import Memory
from vitrail.nn.recurrent.cell import Hidden, choose_rows, run


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


class Decoded(NamedTuple):
    """What a decoder makes of words."""

    x: Float[Tensor, "b n w"]
    carried: Carried  # after the last word
    weights: Float[Tensor, "b n m"] | None  # of attention, where there is one: row t for the word behind word t


class RecurrentDecoder(nn.Module):
    """h_t = cell(x_t, h_(t-1)); with attention o_t = tanh(W [c_t; h_t]), c_t what h_t reads in the memory  [Luong+ 2015, eq. 5].

    Without attention o_t = h_t, and all that the decoder knows of a source is the state it starts from  [Sutskever+ 2014, section 2].
    With `feeding` the cell reads [x_t; o_(t-1)], so that a step knows what those before it attended to  [Luong+ 2015, section 3.3]; steps then
    run one by one, and else all at once. Handed its parts: `layers` read 2 w numbers with `feeding`, else w.
    """

    def __init__(
        self, width: int, *, layers: nn.RNNBase, attention: nn.Module | None = None, feeding: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        assert attention is not None or not feeding, "what is fed is what attention gave"
        self.layers, self.attention, self.feeding = layers, attention, feeding
        self.combine = nn.Linear(2 * width, width, bias=False) if attention is not None else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "b n w"], carried: Carried, memory: Memory | None = None) -> Decoded:
        """The words' outputs from a state on: of a whole sentence, or of its next word alone."""
        if not self.feeding:
            return self.steps(x, carried, memory)
        outs: list[Decoded] = []
        for word in x.chunk(x.shape[1], dim=1):  # b 1 w
            fed = torch.zeros_like(word) if carried.fed is None else carried.fed[:, None]
            outs.append(self.steps(torch.cat([word, fed], dim=-1), carried, memory))
            carried = outs[-1].carried
        weights = [out.weights for out in outs if out.weights is not None]
        return Decoded(torch.cat([out.x for out in outs], dim=1), carried, torch.cat(weights, dim=1))

    def steps(self, x: Float[Tensor, "b n u"], carried: Carried, memory: Memory | None) -> Decoded:
        """All steps at once, where none needs another's output."""
        out, hidden = run(self.layers, x, carried.hidden)
        weights = None
        if self.attention is not None and self.combine is not None:
            found = self.attention(out, memory, first=carried.words)
            out, weights = self.combine(torch.cat([found.context, out], dim=-1)).tanh(), found.weights
        fed = out[:, -1] if self.feeding else None
        return Decoded(self.dropout(out), Carried(hidden, fed, carried.words + x.shape[1]), weights)
