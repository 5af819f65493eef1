"""What may stand on a residual branch: a learned scale, dropout, and leaving the branch out at random.

b batch, n tokens, d width
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError


class LayerScale(nn.Module):
    """diag(gamma) · branch, gamma starting small  [Touvron+ 2021, CaiT, eq. 3]."""

    def __init__(self, width: int, *, start: float = 1e-5) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), start))

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        return x * self.gamma


class DropPath(nn.Module):
    """Stochastic depth: in training a sample skips the branch with probability `rate`  [Huang+ 2016].

    What is kept is divided by 1 - rate, so that the expected branch is unchanged. A sample is a row of the batch; of a packed
    sequence, whose pictures' numbers are `segments`, each picture.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0.0 <= rate < 1.0:
            raise VitrailError(f"the rate of stochastic depth must be in [0, 1), got {rate}")
        self.rate = rate

    def forward(self, x: Float[Tensor, "b n d"], segments: Int[Tensor, "1 n"] | None = None) -> Float[Tensor, "b n d"]:
        if not self.training or self.rate == 0.0:
            return x
        keep = 1.0 - self.rate
        if segments is not None:
            kept = x.new_empty(int(segments[0, -1]) + 1).bernoulli_(keep).div_(keep)
            return x * kept[segments][..., None]
        return x * x.new_empty(x.shape[0], *(1 for _ in x.shape[1:])).bernoulli_(keep).div_(keep)


def through(
    branch: nn.Sequential | None,
    y: Float[Tensor, "b n d"],
    *,
    dropout: float = 0.0,
    segments: Int[Tensor, "b n"] | None = None,
) -> Float[Tensor, "b n d"]:
    """What a residual branch makes of y; most have nothing on them, and an empty module costs time too.

    `dropout` is that of [Vaswani+ 2017, section 5.4], on what is added; 0 in evaluation. `segments` are those of a packed sequence.
    """
    if branch is not None and segments is not None:
        for part in branch:
            y = part(y, segments) if isinstance(part, DropPath) else part(y)
    elif branch is not None:
        y = branch(y)
    return F.dropout(y, dropout) if dropout else y


def residual_branch(width: int, *, drop_path: float, layer_scale: float | None) -> nn.Sequential | None:
    """The parts that are asked for."""
    parts: list[nn.Module] = [] if layer_scale is None else [LayerScale(width, start=layer_scale)]
    parts += [DropPath(drop_path)] if drop_path else []
    return nn.Sequential(*parts) if parts else None
