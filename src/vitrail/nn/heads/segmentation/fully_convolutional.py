"""The head that helps while a model learns: one layer's map, one convolution, classes.

b batch, d width, k classes, h w grid
"""

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.heads.segmentation.normed_convolution import MapNorm, NormedConvolution


class FullyConvolutionalHead(nn.Module):
    """s = W_2 relu(norm(3x3 W_1 z))  [Long+ 2015; Zhao+ 2017, section 3.3, for its place: the loss of an earlier layer's answer is added]."""

    def __init__(self, width: int, *, classes: int, hidden: int, norm: MapNorm) -> None:
        super().__init__()
        self.hidden = NormedConvolution(width, hidden, norm=norm)
        self.output = nn.Conv2d(hidden, classes, 1)

    def forward(self, found: Float[Tensor, "b d h w"]) -> Float[Tensor, "b k h w"]:
        return self.output(self.hidden(found))
