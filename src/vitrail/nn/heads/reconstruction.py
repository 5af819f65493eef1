"""The reconstruction head: every token back to the pixels of its patch.

b batch, ch channels, d width
"""

import math

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.functional.patches import unpatchify
from vitrail.tokens import Tokens


class ReconstructionHead(nn.Module):
    """unpatchify(z W + b): one linear layer and the inverse of the cut, on any number of axes  [He+ 2022, MAE, section 3; Lin and Heckel 2022]."""

    def __init__(self, width: int, *, channels: int, patch: tuple[int, ...]) -> None:
        super().__init__()
        self.patch = patch
        self.output = nn.Linear(width, channels * math.prod(patch))

    def forward(self, tokens: Tokens) -> Float[Tensor, "b ch *size"]:
        return unpatchify(self.output(tokens.cells), self.patch, tokens.grid)
