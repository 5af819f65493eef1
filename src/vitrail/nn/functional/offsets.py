"""Where to look up the offset of a pair of tokens in a table: one row a pair of offsets, or lines along each axis.

b batch, n queries, m keys, s lines, a axes, r rows of the table, h heads, d key width, e value width

A table's rows for pairs with a prefix token follow those for pairs of cells, always in this order: a prefix token asks a
cell; a cell asks a prefix token; a prefix token asks a prefix token.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.tokens import Grid, Places

PREFIX_ROWS = 3


def offset_rows(queries: Places, keys: Places, reach: Grid, device: torch.device | None) -> Int[Tensor, "#b n m"]:
    """The row of each pair in a table of prod(2 · reach + 1) offsets x_i - x_j in raster order; farther ones have the outermost.

    With reach = (h - 1, w - 1) this is Swin's `relative_position_index`  [Liu+ 2021, section 3.2].
    """
    here, there = queries.coordinates(device), keys.coordinates(device)  # b|1 n a, b|1 m a
    rows = torch.zeros((), dtype=torch.long, device=device)
    for axis, far in enumerate(reach):
        offset = here[:, :, None, axis] - there[:, None, :, axis]
        rows = rows * (2 * far + 1) + offset.clamp(-far, far) + far
    return frame(rows, queries.prefix, keys.prefix, first=math.prod([2 * far + 1 for far in reach]))


def frame(rows: Int[Tensor, "b n m"], queries: int, keys: int, *, first: int) -> Int[Tensor, "b n2 m2"]:
    """The same with prefix queries and keys before the cells; `first` is the table's first row for them."""
    if keys:
        rows = torch.cat([rows.new_full((*rows.shape[:2], keys), first + 1), rows], dim=2)
    if queries:
        above = rows.new_full((rows.shape[0], queries, rows.shape[2]), first)
        above[..., :keys] = first + 2
        rows = torch.cat([above, rows], dim=1)
    return rows


class Lines(NamedTuple):
    """A key lies on one line of each axis (its row, its column), a prefix key on a line of its own.

    How a query sees a line depends on the offset to it alone, so b n m d numbers are never formed: n s of them are looked up,
    with s = height + width, and n m made by adding.
    """

    rows: Int[Tensor, "#b n s"]  # which row of the table each query has for each line
    keys: Bool[Tensor, "#b m s"] | None  # whether a key is on a line; None: on one axis every key is a line


def axis_lines(queries: Places, keys: Places, reach: Grid, device: torch.device | None) -> Lines:
    """For a table with 2 · reach + 1 offsets x_j - x_i for each axis, one axis behind the other, then rows for prefix pairs.

    The last row, behind those for prefix pairs, must be 0: a prefix token's query has one row for a cell, not one an axis.
    """
    total = sum(2 * far + 1 for far in reach)
    here, there = queries.coordinates(device), keys.coordinates(device)  # b|1 n a, b|1 m a
    if len(reach) == 1:
        offset = there[:, None, :, 0] - here[:, :, None, 0]
        rows = offset.clamp(-reach[0], reach[0]) + reach[0]
        return Lines(frame(rows, queries.prefix, keys.prefix, first=total), None)
    columns, marks, start = [], [], 0
    for axis, (far, size) in enumerate(zip(reach, keys.grid, strict=True)):
        line = torch.arange(size, device=device)
        columns.append((line - here[..., axis, None]).clamp(-far, far) + far + start)  # b|1 n size
        marks.append(there[..., axis, None] == line)  # b|1 m size
        start += 2 * far + 1
    rows, on = torch.cat(columns, dim=2), torch.cat(marks, dim=2)
    if keys.prefix:
        rows = torch.cat([rows, rows.new_full((*rows.shape[:2], 1), total + 1)], dim=2)
        on = torch.cat([on, on.new_zeros(*on.shape[:2], 1)], dim=2)
        own = on.new_zeros(on.shape[0], keys.prefix, on.shape[2])
        own[..., -1] = True
        on = torch.cat([own, on], dim=1)
    if queries.prefix:
        above = rows.new_full((rows.shape[0], queries.prefix, rows.shape[2]), total + PREFIX_ROWS)
        above[..., : keys.grid[0]] = total
        if keys.prefix:
            above[..., -1] = total + 2
        rows = torch.cat([above, rows], dim=1)
    return Lines(rows, on)


def spread(scores: Float[Tensor, "b h n r"], lines: Lines) -> Float[Tensor, "b h n m"]:
    """For each pair the sum of its lines' scores: from a query's score of every row of the table to its score of every key."""
    seen = look_up(scores, lines)
    return seen if lines.keys is None else seen @ lines.keys.to(seen.dtype)[:, None].transpose(2, 3)


def collect(weights: Float[Tensor, "b h n m"], lines: Lines, rows: int) -> Float[Tensor, "b h n r"]:
    """The transpose of `spread`: how much of a query's attention falls on each row of the table."""
    seen = weights if lines.keys is None else weights @ lines.keys.to(weights.dtype)[:, None]  # b h n s
    return put_back(seen, lines, rows)


def look_up(scores: Float[Tensor, "b h n r"], lines: Lines) -> Float[Tensor, "b h n s"]:
    """Each query's score of each line."""
    return scores.gather(3, lines.rows[:, None].expand(*scores.shape[:2], -1, -1))


def put_back(seen: Float[Tensor, "b h n s"], lines: Lines, rows: int) -> Float[Tensor, "b h n r"]:
    """The transpose of `look_up`: what falls on a line falls on its row of the table."""
    return seen.new_zeros(*seen.shape[:3], rows).scatter_add(3, lines.rows[:, None].expand(*seen.shape[:2], -1, -1), seen)
