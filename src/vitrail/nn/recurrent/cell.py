"""Recurrent cells by name, what they hand from one step to the next, and an encoder of them: one state a token, and the last one, which has seen them all.

b batch, n m tokens, w width of states, v width of one direction, u width of what goes in, l k layers (twice as many where they run both ways), r rows that are chosen
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from vitrail.errors import VitrailError

Cell = Literal["lstm", "gru"]
Hidden = tuple[Tensor, ...]  # each "l b w": (h, c) of an LSTM, (h,) of a GRU


def make_layers(
    cell: Cell, inputs: int, width: int, *, depth: int, dropout: float = 0.0, bidirectional: bool = False
) -> nn.LSTM | nn.GRU:
    """`depth` layers, one above the other; dropout between them, not along time  [Zaremba+ 2014].

    LSTM  [Hochreiter+ 1997]: c_t = f * c_(t-1) + i * g,  h_t = o * tanh(c_t); GRU  [Cho+ 2014]: h_t = z * h_(t-1) + (1 - z) * n. Gates are sigmoids
    of W x_t + U h_(t-1) + b. The forget gate's bias starts at 1, so that memory lasts at first  [Jozefowicz+ 2015].
    """
    kind = nn.LSTM if cell == "lstm" else nn.GRU
    between = dropout if depth > 1 else 0.0
    layers = kind(inputs, width, depth, batch_first=True, dropout=between, bidirectional=bidirectional)
    if cell == "lstm":
        for name, parameter in layers.named_parameters():
            if name.startswith("bias_ih"):
                nn.init.ones_(parameter.data[width : 2 * width])  # torch's order of the gates: i, f, g, o
    return layers


def run(
    layers: nn.RNNBase, x: Float[Tensor, "b n u"], hidden: Hidden | None = None
) -> tuple[Float[Tensor, "b n w"], tuple[Float[Tensor, "l b w"], ...]]:
    """All steps of the layers from a state on; the last layer's outputs, and all layers' state after the last step."""
    is_lstm = isinstance(layers, nn.LSTM)
    before = None if hidden is None else (hidden if is_lstm else hidden[0])
    out, after = layers(x, before)
    return out, tuple(after) if is_lstm else (after,)


def choose_rows(hidden: Hidden, rows: Int[Tensor, "r"]) -> Hidden:
    """The state of some rows of the batch, in their order."""
    return tuple(torch.index_select(part, 1, rows) for part in hidden)


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
