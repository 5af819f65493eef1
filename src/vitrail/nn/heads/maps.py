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
