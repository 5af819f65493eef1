"""The linear head: every cell by itself.

b batch, d width, k classes, h w grid
"""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.functional.maps import to_maps, to_tokens


class LinearHead(nn.Module):
    """s = W z + b of each cell's feature z  [Strudel+ 2021, section 3.2, "Linear"]."""

    def __init__(self, width: int, *, classes: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, classes)

    def forward(self, maps: Sequence[Float[Tensor, "b _ _ _"]]) -> Float[Tensor, "b k h w"]:
        last = maps[-1]
        return to_maps(self.output(to_tokens(last)), (last.shape[2], last.shape[3]))
