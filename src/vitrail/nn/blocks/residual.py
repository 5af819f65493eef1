"""How a layer joins the residual stream, the norm that it stands on, and what may stand on its branch: a learned scale, dropout, and leaving it out at random.

b batch, n tokens, d width
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError

Layer = Callable[..., Tensor]


@runtime_checkable
class Residual(Protocol):
    """x with what `layer` makes of it; `context` is what the layer needs beside its input, such as a Scope."""

    def __call__(self, x: Tensor, norm: Layer, layer: Layer, branch: Layer, *context: Any) -> Tensor: ...


def pre_norm(x: Float[Tensor, "b n d"], norm: Layer, layer: Layer, branch: Layer, *context: Any) -> Float[Tensor, "b n d"]:
    """x + branch(layer(norm(x)))  [Dosovitskiy+ 2021, eq. 2-3]."""
    return x + branch(layer(norm(x), *context))


def post_norm(x: Float[Tensor, "b n d"], norm: Layer, layer: Layer, branch: Layer, *context: Any) -> Float[Tensor, "b n d"]:
    """norm(x + branch(layer(x)))  [Vaswani+ 2017, section 3.1]."""
    return norm(x + branch(layer(x, *context)))


def res_post_norm(x: Float[Tensor, "b n d"], norm: Layer, layer: Layer, branch: Layer, *context: Any) -> Float[Tensor, "b n d"]:
    """x + branch(norm(layer(x)))  [Liu+ 2022, Swin-V2, section 3.2]."""
    return x + branch(norm(layer(x, *context)))


RESIDUALS: Mapping[Literal["pre", "post", "res-post"], Residual] = MappingProxyType(
    {"pre": pre_norm, "post": post_norm, "res-post": res_post_norm}
)


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
    sequence, whose images' numbers are `segments`, each image.
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


class ResidualBranch(nn.ModuleList):
    """What the output of a layer passes before it is added: LayerScale and DropPath where they are asked for, then dropout.

    `dropout` is that of [Vaswani+ 2017, section 5.4]. `segments` are those of a packed sequence.
    """

    def __init__(self, width: int, *, drop_path: float = 0.0, layer_scale: float | None = None, dropout: float = 0.0) -> None:
        scale = [] if layer_scale is None else [LayerScale(width, start=layer_scale)]
        super().__init__([*scale, *([DropPath(drop_path)] if drop_path else [])])
        self.dropout = dropout

    def forward(self, y: Float[Tensor, "b n d"], segments: Int[Tensor, "1 n"] | None = None) -> Float[Tensor, "b n d"]:
        for part in self:
            y = part(y, segments) if isinstance(part, DropPath) else part(y)
        return F.dropout(y, self.dropout) if self.dropout and self.training else y


NormKind = Literal["layer", "rms"]


def build_norm(kind: NormKind, width: int, *, eps: float) -> nn.Module:
    """Each token by itself: `layer` is  g · (x - mean(x)) / sqrt(var(x) + eps) + b  [Ba+ 2016, eq. 3-4]; `rms`, which leaves out
    the mean and the shift, is  g · x / sqrt(mean(x²) + eps)  [Zhang+ 2019, eq. 4]."""
    return nn.RMSNorm(width, eps=eps) if kind == "rms" else nn.LayerNorm(width, eps=eps)
