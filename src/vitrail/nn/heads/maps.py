"""The classification head of convolutional nets: what a reader takes from the maps, then one linear layer.

b batch, e features, k classes
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn


class MapHead(nn.Module):
    """y = W read(maps) + b. The reader, from maps to `features_width` numbers, is where spatial attention comes in.

    With no classes it gives the features that the linear layer would have read.
    """

    reader: Any

    def __init__(self, reader: nn.Module, *, classes: int) -> None:
        super().__init__()
        self.reader = reader
        self.features_width: int = self.reader.features_width
        self.output: nn.Module = nn.Linear(self.features_width, classes) if classes else nn.Identity()

    def features(self, maps: Sequence[Tensor]) -> Float[Tensor, "b e"]:
        return self.reader(maps)

    def forward(self, maps: Sequence[Tensor]) -> Float[Tensor, "b k"]:
        return self.output(self.features(maps))


class GlobalMean(nn.Module):
    """Global average pooling  [Lin+ 2014, section 3.2; He+ 2016, section 4.2]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features_width = width

    def forward(self, maps: Sequence[Tensor]) -> Float[Tensor, "b d"]:
        return maps[-1].mean((2, 3))
