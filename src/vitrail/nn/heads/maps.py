"""The classification head of convolutional nets: what a reader takes from the maps, then one linear layer.

b batch, d channels, h w map, e features, k classes
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.nn.functional.maps import to_maps
from vitrail.tokens import Tokens


class MapHead(nn.Module):
    """y = W read(maps) + b. The reader, from maps to `features_width` numbers, is where spatial attention comes in.

    A reader of several levels reads first: what it takes from each stands in front of the last map's cells, as prefix tokens do.
    With no classes it gives the features that the linear layer would have read.
    """

    reader: Any

    def __init__(self, reader: nn.Module, *, classes: int) -> None:
        super().__init__()
        self.reader = reader
        self.features_width: int = self.reader.features_width
        self.output: nn.Module = nn.Linear(self.features_width, classes) if classes else nn.Identity()

    def gather(self, maps: Sequence[Tensor]) -> Tokens:
        """What `features` needs of the maps of all stages."""
        cells = map_tokens(maps[-1])
        if (levels := self.features_width // cells.x.shape[2]) == 1:
            return cells
        read = self.reader(maps).unflatten(1, (levels, -1))  # b levels d
        return cells._replace(x=torch.cat([read, cells.x], dim=1), prefix=levels)

    def features(self, tokens: Tokens) -> Float[Tensor, "b e"]:
        if tokens.prefix:
            return tokens.x[:, : tokens.prefix].flatten(1)
        return self.reader([to_maps(tokens.x, (tokens.grid[0], tokens.grid[1]))])

    def forward(self, tokens: Tokens) -> Float[Tensor, "b k"]:
        return self.output(self.features(tokens))


class GlobalMean(nn.Module):
    """Global average pooling  [Lin+ 2014, section 3.2; He+ 2016, section 4.2]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features_width = width

    def forward(self, maps: Sequence[Tensor]) -> Float[Tensor, "b d"]:
        return maps[-1].mean((2, 3))


def map_tokens(found: Float[Tensor, "b d h w"]) -> Tokens:
    """The cells of a map as tokens; a view, whatever the order of its memory."""
    return Tokens(found.flatten(2).transpose(1, 2), grid=(found.shape[2], found.shape[3]))
