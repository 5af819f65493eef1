"""Recurrent cells by name, and what they hand from one step to the next.

b batch, n steps, w width, u width of what goes in, l layers (twice as many where they run both ways), r rows that are chosen
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

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
