"""A recurrent encoder: one state a token, and the last one, which has seen them all.

b batch, m tokens, u width of tokens, w width of states, l layers
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from vitrail.errors import VitrailError
from vitrail.nn.recurrent.cell import Cell, Hidden, make_layers


class Encoded(NamedTuple):
    """What a recurrent encoder makes of a sequence."""

    states: Float[Tensor, "b m w"]  # of the last layer; 0 at padding
    mask: Bool[Tensor, "b m"]  # True: a real token
    last: Hidden  # of every layer, after the last real token: (h, c) of an LSTM, (h,) of a GRU, each "l b w"


class RecurrentEncoder(nn.Module):
    """h_j = f(x_j, h_(j-1)); with `bidirectional` layers h_j = [h_j forward; h_j backward]  [Schuster+ 1997, Bahdanau+ 2015, section 3.2].

    Each direction then has half the width, so that a state, and the last one, is as wide as that of the other kind. Backward, the
    last state is that of the first token. Sequences are packed: what stands behind a row's last real token is never read.
    """

    def __init__(
        self, inputs: int, width: int, *, depth: int, cell: Cell = "lstm", bidirectional: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if bidirectional and width % 2:
            raise VitrailError(f"the width of a bidirectional encoder must be even, half for each direction: got {width}")
        self.depth, self.bidirectional = depth, bidirectional
        own = width // 2 if bidirectional else width
        self.layers = make_layers(cell, inputs, own, depth=depth, dropout=dropout, bidirectional=bidirectional)

    def forward(self, x: Float[Tensor, "b m u"], mask: Bool[Tensor, "b m"]) -> Encoded:
        """`mask` is True for the real tokens, which stand first, at least one in each row."""
        packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        out, last = self.layers(packed)
        states, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
        parts = last if isinstance(last, tuple) else (last,)
        return Encoded(states, mask, tuple(self.join(part) for part in parts))

    def join(self, part: Float[Tensor, "k b v"]) -> Float[Tensor, "l b w"]:
        """Both directions of a layer side by side."""
        if not self.bidirectional:
            return part
        ways = part.reshape(self.depth, 2, *part.shape[1:])  # l 2 b w/2: torch's order is layer, then direction
        return torch.cat([ways[:, 0], ways[:, 1]], dim=-1)
