"""The residual block of the discrete VAE: convolutions without norms, so that a picture's codes depend on nothing but itself.

b batch, d width, h w maps
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class PlainResidual(nn.Module):
    """x + f(x), f: relu, 3x3, relu, 1x1, which begins at 0, so that a new block is the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 1)
        nn.init.zeros_(self.second.weight)
        if self.second.bias is not None:
            nn.init.zeros_(self.second.bias)

    def forward(self, x: Float[Tensor, "b d h w"]) -> Float[Tensor, "b d h w"]:
        return x + self.second(F.relu(self.first(F.relu(x))))
