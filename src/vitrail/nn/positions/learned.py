"""Learned positions: a row for each cell, or a row for each row and each column.

b batch, c cells, d width
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.functional.maps import resize_table
from vitrail.nn.positions.added import AddedPosition
from vitrail.tokens import Grid, Places


class Learned1d(AddedPosition):
    """A learned row for each cell in raster order: ViT as published  [Dosovitskiy+ 2021, eq. 1].

    A grid it was not built for gets the table resized as an image (bicubic on two axes, there antialiased if asked for).
    """

    antialias: bool = False

    def __init__(self, width: int, *, grid: Grid, prefix: int = 0) -> None:
        super().__init__(width, prefix=prefix)
        self.grid = grid
        self.table = nn.Parameter(torch.empty(math.prod(grid), width))
        nn.init.trunc_normal_(self.table, std=0.02)

    def rows(self, places: Places, device: torch.device) -> Float[Tensor, "#b c d"]:
        if len(places.grid) != len(self.grid):
            raise VitrailError(
                f"this position was built for a grid {self.grid}, got one of {len(places.grid)} axes {places.grid}"
            )
        table = resize_table(self.table, self.grid, places.grid, antialias=self.antialias)
        return table[None] if places.index is None else table[places.index]


class Learned2d(AddedPosition):
    """A learned row for each coordinate of each axis, an equal share of the width an axis  [Dosovitskiy+ 2021, D.4].

    An axis of another length gets its table resized by linear interpolation.
    """

    def __init__(self, width: int, *, grid: Grid, prefix: int = 0) -> None:
        super().__init__(width, prefix=prefix)
        if width % len(grid):
            raise VitrailError(
                f"a learned position on {len(grid)} axes needs a width that is a multiple of {len(grid)}, got {width}"
            )
        self.grid = grid
        self.tables = nn.ParameterList(torch.empty(size, width // len(grid)) for size in grid)
        for table in self.tables:
            nn.init.trunc_normal_(table, std=0.02)

    def rows(self, places: Places, device: torch.device) -> Float[Tensor, "#b c d"]:
        if len(places.grid) != len(self.grid):
            raise VitrailError(
                f"this position was built for a grid {self.grid}, got one of {len(places.grid)} axes {places.grid}"
            )
        coordinates = places.coordinates(device)  # b|1 c a
        shares = [
            resize_table(table, (old,), (new,))[coordinates[..., axis]]
            for axis, (table, old, new) in enumerate(zip(self.tables, self.grid, places.grid, strict=True))
        ]
        return torch.cat(shares, dim=-1)
