"""Sines and cosines of a coordinate, the fixed position code of the first transformer.

c places, d width
"""

from typing import Literal

import torch
from jaxtyping import Float, Real
from torch import Tensor

from vitrail.errors import VitrailError

Layout = Literal["interleaved", "concatenated"]


def sinusoid(
    place: Real[Tensor, "*c"], width: int, *, layout: Layout = "interleaved", base: float = 10_000.0
) -> Float[Tensor, "*c d"]:
    """sin(x · base^(-2i/d)), cos(x · base^(-2i/d)) for i < d/2  [Vaswani+ 2017, section 3.5].

    `interleaved` sets sin, cos, sin, cos, ... as the paper's equation has it; `concatenated` all sines, then all cosines.
    """
    if width % 2:
        raise VitrailError(f"a sinusoid needs an even width, got {width}")
    rates = base ** (-torch.arange(0, width, 2, device=place.device, dtype=torch.float32) / width)  # d/2
    angles = place.to(torch.float32)[..., None] * rates
    pair = (angles.sin(), angles.cos())
    return torch.stack(pair, dim=-1).flatten(-2) if layout == "interleaved" else torch.cat(pair, dim=-1)
