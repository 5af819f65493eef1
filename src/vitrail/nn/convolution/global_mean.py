"""From maps to one vector without attention: the mean over all places of the last map.

b batch, d channels
"""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn


class GlobalMean(nn.Module):
    """Global average pooling  [Lin+ 2014, section 3.2; He+ 2016, section 4.2]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features_width = width

    def forward(self, maps: Sequence[Tensor]) -> Float[Tensor, "b d"]:
        return maps[-1].mean((2, 3))
