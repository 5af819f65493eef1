"""The grid of cells behind a number of rows. A count alone knows squares only; whoever knows the image's size tells the rest."""

import math
from collections.abc import Iterable

from vitrail.errors import VitrailError

Sides = tuple[int, int]


def grid_from_rows(rows: int, owned: Iterable[int], hint: Sides | None, *, what: str) -> tuple[Sides, int, bool]:
    """The grid of a position table, how many of its rows are prefix tokens', and whether it was guessed.

    `owned` are the numbers of such rows that there may be, the likeliest first: 197 rows are 14 x 14 cells and a class token, 196
    are the cells alone. `hint` is the grid of the images that the model is said to read. It decides where it fits; else
    a square does; else the pair of factors that is nearest to it.
    """
    counts = [(rows - number, number) for number in owned if rows > number]
    if hint is not None:
        for cells, number in counts:
            if cells == math.prod(hint):
                return hint, number, False
    for cells, number in counts:
        if (side := math.isqrt(cells)) ** 2 == cells:
            return (side, side), number, False
    if not counts or hint is None:
        raise VitrailError(f"{what} has {rows} rows, which are no square grid of cells: tell the image's size (image_size)")
    cells, number = counts[0]
    return nearest_factors(cells, hint), number, True


def grid_from_offsets(rows: int, hint: Sides | None, *, what: str) -> tuple[Sides, bool]:
    """The grid whose offsets, (2h - 1)(2w - 1) of them, a relative table has rows for, and whether it was guessed."""
    if hint is not None and (2 * hint[0] - 1) * (2 * hint[1] - 1) == rows:
        return hint, False
    if (side := math.isqrt(max(rows, 0))) ** 2 == rows and side % 2:
        return ((side + 1) // 2,) * 2, False
    if hint is None or rows < 1 or not rows % 2:
        raise VitrailError(
            f"{what} has {rows} offsets, which are not those of a square grid: tell the image's size (image_size)"
        )
    height, width = nearest_factors(rows, (2 * hint[0] - 1, 2 * hint[1] - 1))
    return ((height + 1) // 2, (width + 1) // 2), True


def nearest_factors(product: int, near: Sides) -> Sides:
    """h w = product, with h/w as near to what `near` has as factors allow."""
    pairs = [(height, product // height) for height in range(1, product + 1) if product % height == 0]
    wanted = math.log(near[0] / near[1])
    return min(pairs, key=lambda pair: round(abs(math.log(pair[0] / pair[1]) - wanted), 9))  # of two as near, the wider
