"""LoRA and DoRA: a trained layer stays as it is, and a product of two thin matrices beside it learns.

b batch, i input width, o output width, r rank, s parts of a joined projection, ch channels, h w image, kh kw kernel
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

OWN = ("lora_a", "lora_b", "magnitude")  # what an adapted layer has beside a plain one
PARTS = 3  # of a projection that gives queries, keys and values at once


class Adapted(nn.Module):
    """W' = W + scale B A  [Hu+ 2021, eq. 3]; with a magnitude m, W' = m (W + scale B A) / ||W + scale B A||  [Liu+ 2024, eq. 5].

    W and the bias stay; A is drawn and B is 0, so that at first W' = W, and m = ||W||, the norm of each row. The norm counts as a constant in
    the gradient [Liu+ 2024, section 4.3]. A layer becomes adapted by `adapt`, which changes its class: its weights keep their names, and
    whoever holds it keeps it. Where queries, keys and values are one matrix, `parts` says which of the three learn, each with an A and
    a B of its own; nothing is added to the others.
    """

    weight: Any  # the plain layer's own, as is the bias
    bias: Any
    lora_a: nn.Parameter  # (s r) ..., one part's rows after the other's
    lora_b: nn.Parameter  # (s o) r
    magnitude: nn.Parameter | None
    scale: float
    parts: tuple[int, ...]  # (): the layer is no joined projection

    @property
    def rank(self) -> int:
        return self.lora_b.shape[1]

    @property
    def rows(self) -> list[slice]:
        """Of W, those that each A and B are for."""
        whole = len(self.weight)
        width = whole // PARTS
        return [slice(part * width, (part + 1) * width) for part in self.parts] or [slice(0, whole)]

    def products(self) -> list[Float[Tensor, "o i"]]:
        """scale B A of each part, as matrices."""
        count = max(1, len(self.parts))
        pairs = zip(self.lora_b.chunk(count), self.lora_a.flatten(1).chunk(count), strict=True)
        return [self.scale * (b @ a) for b, a in pairs]

    def moved(self) -> Tensor:
        """W + scale B A."""
        whole = self.weight.flatten(1).clone()
        for rows, product in zip(self.rows, self.products(), strict=True):
            whole[rows] += product
        return whole.view_as(self.weight)

    def factors(self) -> Float[Tensor, "o"] | None:
        """m / ||W + scale B A|| of each row, 1 where no magnitude learns; None without magnitudes."""
        if self.magnitude is None:
            return None
        norms = row_norms(self.moved()).detach()
        norms = torch.where(norms > 0, norms, 1.0)  # a row of zeros has no direction to scale
        if not self.parts:
            return self.magnitude / norms
        found = torch.ones_like(norms)
        for rows, own in zip(self.rows, self.magnitude.chunk(len(self.parts)), strict=True):
            found[rows] = own / norms[rows]
        return found

    def merged_weight(self) -> Tensor:
        """W'."""
        moved, factors = self.moved(), self.factors()
        return moved if factors is None else moved * factors.view(-1, *[1] * (moved.ndim - 1))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rank={self.rank}, scale={self.scale:g}"


class LoraLinear(Adapted, nn.Linear):
    """x W'^T + b, with W' as `Adapted` has it."""

    def forward(self, x: Float[Tensor, "*some i"]) -> Float[Tensor, "*some o"]:
        base, factors = F.linear(x, self.weight, self.bias), self.factors()
        added = self.added(x)
        if factors is None:
            return base + added
        without = base if self.bias is None else base - self.bias
        return base + ((factors - 1.0) * without + factors * added)

    def added(self, x: Float[Tensor, "*some i"]) -> Float[Tensor, "*some o"]:
        """scale B A x, part by part; the A of all parts read x at once."""
        inner = F.linear(x, self.lora_a)
        if not self.parts:
            return self.scale * F.linear(inner, self.lora_b)
        count = len(self.parts)
        pairs = zip(inner.chunk(count, dim=-1), self.lora_b.chunk(count), strict=True)
        found = dict(zip(self.parts, (self.scale * F.linear(a, b) for a, b in pairs), strict=True))
        nothing = torch.zeros_like(next(iter(found.values())))
        return torch.cat([found.get(part, nothing) for part in range(PARTS)], dim=-1)


class LoraConv2d(Adapted, nn.Conv2d):
    """A convolution with W' as `Adapted` has it: A is a convolution to r channels, B one of side 1 behind it."""

    def forward(self, x: Float[Tensor, "b _ h w"]) -> Float[Tensor, "b o _ _"]:
        base, factors = self._conv_forward(x, self.weight, self.bias), self.factors()
        added = self.scale * F.conv2d(self._conv_forward(x, self.lora_a, None), self.lora_b[:, :, None, None])
        if factors is None:
            return base + added
        factors = factors[:, None, None]
        without = base if self.bias is None else base - self.bias[:, None, None]
        return base + ((factors - 1.0) * without + factors * added)


KINDS: dict[type[nn.Module], type[Adapted]] = {nn.Linear: LoraLinear, nn.Conv2d: LoraConv2d}


def why_not(layer: nn.Module) -> str | None:
    """Why a layer cannot be adapted; None: it can. A subclass computes something of its own with its weight."""
    if type(layer) not in KINDS:
        return f"is a {type(layer).__name__}"
    if isinstance(layer, nn.Conv2d) and layer.groups > 1:
        return f"is a convolution in {layer.groups} groups"
    return None


def adapt(layer: nn.Module, *, rank: int, scale: float, dora: bool = False, parts: Sequence[int] = ()) -> Adapted:
    """Make a layer that `why_not` has nothing against adapted, in place; it computes what it did before."""
    weight: Any = layer.weight
    count, rows = max(1, len(parts)), len(weight) * len(parts) // PARTS if parts else len(weight)
    layer.__class__ = KINDS[type(layer)]
    assert isinstance(layer, Adapted)
    layer.scale, layer.parts = scale, tuple(parts)
    layer.lora_a = nn.Parameter(weight.new_empty(count * rank, *weight.shape[1:]))
    layer.lora_b = nn.Parameter(weight.new_zeros(rows, rank))
    for part in layer.lora_a.data.chunk(count):
        nn.init.kaiming_uniform_(part, a=math.sqrt(5))  # as the authors' code and PEFT have it
    norms = row_norms(weight.detach())
    layer.magnitude = nn.Parameter(torch.cat([norms[own] for own in layer.rows])) if dora else None
    layer.weight.requires_grad_(False)
    if layer.bias is not None:
        layer.bias.requires_grad_(False)
    return layer


@torch.no_grad()
def merge(layer: nn.Module) -> None:
    """Make an adapted layer the plain one that computes the same, in place."""
    assert isinstance(layer, Adapted)
    layer.weight.copy_(layer.merged_weight())
    for name in OWN:
        delattr(layer, name)
    del layer.scale, layer.parts
    plain: Any = next(plain for plain, kind in KINDS.items() if type(layer) is kind)
    layer.__class__ = plain


def weight_of(layer: nn.Linear) -> Tensor:
    """What a layer multiplies by, adapted or not, for whoever reads it without calling the layer."""
    return layer.merged_weight() if isinstance(layer, LoraLinear) else layer.weight


def row_norms(weight: Tensor) -> Float[Tensor, "o"]:
    """||w|| of each output's weights."""
    return torch.linalg.vector_norm(weight.flatten(1), dim=1)
