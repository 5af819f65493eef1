"""A row that builds a whole layer instead of a kernel: no queries and no keys."""

from torch import nn

from vitrail.nn.attention.kernel import refuse_unsupported
from vitrail.scope import OPEN


class PooledAttention(nn.Module):
    """W_O (mean of W_V y + scale x), y the context or x itself."""

    name = "whole"
    supports = frozenset({"cross"})

    def __init__(self, width, context_width, scale):
        super().__init__()
        self.scale = scale
        self.value, self.output = nn.Linear(context_width or width, width), nn.Linear(width, width)

    def forward(self, x, scope=OPEN, context=None):
        refuse_unsupported(self, scope, cross=context is not None)
        return self.output(self.value(x if context is None else context).mean(1, keepdim=True) + self.scale * x)


def build_whole(spec, *, scale: float = 1.0):
    return PooledAttention(spec.width, spec.context_width, scale)
