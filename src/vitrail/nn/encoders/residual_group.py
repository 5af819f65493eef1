"""The residual group: some blocks, then a convolution, and what went in added to it.

b batch, n tokens, d width, h w grid
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.convolution.upsampling import SLOPE, convolution
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.maps import to_maps, to_tokens
from vitrail.tokens import Tokens

Convolutions = Literal[1, 3]


class ResidualGroup(nn.Module):
    """z + conv(blocks(z))  [Liang+ 2021, SwinIR, eq. 7]: what is translation-equivariant behind what is not. Handed its parts."""

    def __init__(self, encoder: PlainEncoder, *, convolution: nn.Module) -> None:
        super().__init__()
        self.encoder, self.convolution = encoder, convolution

    def forward(self, tokens: Tokens) -> Tokens:
        height, width = tokens.grid
        maps: Float[Tensor, "b d h w"] = self.convolution(to_maps(self.encoder(tokens).x, (height, width)))
        return tokens._replace(x=tokens.x + to_tokens(maps))


def closing_convolution(width: int, count: Convolutions) -> nn.Module:
    """One 3x3, or for wide models 3x3, 1x1, 3x3 with a quarter of the channels between them  [Liang+ 2021, section 4.2's code]."""
    if count == 1:
        return convolution(width, width)
    narrow = width // 4
    return nn.Sequential(
        convolution(width, narrow),
        nn.LeakyReLU(SLOPE),
        nn.Conv2d(narrow, narrow, 1),
        nn.LeakyReLU(SLOPE),
        convolution(narrow, width),
    )
