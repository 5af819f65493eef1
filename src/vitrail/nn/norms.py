"""The norms a block may stand on, by name.

b batch, n tokens, d width
"""

from typing import Literal

from torch import nn

NormKind = Literal["layer", "rms"]


def build_norm(kind: NormKind, width: int, *, eps: float) -> nn.Module:
    """Each token by itself: `layer` is  g · (x - mean(x)) / sqrt(var(x) + eps) + b  [Ba+ 2016, eq. 3-4]; `rms`, which leaves out
    the mean and the shift, is  g · x / sqrt(mean(x²) + eps)  [Zhang+ 2019, eq. 4]."""
    return nn.RMSNorm(width, eps=eps) if kind == "rms" else nn.LayerNorm(width, eps=eps)
