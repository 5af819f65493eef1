"""Channel attention: a picture's own means decide how much of each channel goes on.

b batch, d channels, h w sides of the map
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

REDUCTION = 16  # channels over hidden units: r of [Hu+ 2018, section 3.2]
FEWEST = 4  # hidden units; a sixteenth of a narrow stage would be a single one


class SqueezeExcitation(nn.Module):
    """x · s with s = sigmoid(W_2 relu(W_1 z)), z the mean of each channel  [Hu+ 2018, eq. 2-4]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        hidden = max(channels // REDUCTION, FEWEST)
        self.squeeze = nn.Linear(channels, hidden, bias=False)
        self.excite = nn.Linear(hidden, channels, bias=False)

    def gates(self, x: Float[Tensor, "b d h w"]) -> Float[Tensor, "b d"]:
        """How much of each channel goes on, in (0, 1)."""
        return self.excite(F.relu(self.squeeze(x.mean((2, 3))))).sigmoid()

    def forward(self, x: Float[Tensor, "b d h w"]) -> Float[Tensor, "b d h w"]:
        return x * self.gates(x)[:, :, None, None]
