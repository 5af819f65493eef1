"""How far attention reaches: the mean distance between a patch and what it attends to, by layer and head.

b images, l layers, h heads, n queries, m keys, c cells
"""

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.cells import spatial, spread_weights
from vitrail.explain.look import Look
from vitrail.nn.functional.windows import window_cells
from vitrail.tokens import Grid, Windows


def centers(grid: Grid, pixels: tuple[int, int]) -> Float[Tensor, "c 2"]:
    """Row and column of each cell's middle in pixels, for cells that divide an image of `pixels` (rows, columns) evenly."""
    rows, columns = (
        (torch.arange(count, dtype=torch.float32) + 0.5) * (side / count) for count, side in zip(grid, pixels, strict=True)
    )
    return torch.cartesian_prod(rows, columns).view(-1, 2)


def distances(grid: Grid, pixels: tuple[int, int]) -> Float[Tensor, "c c"]:
    """|center_i - center_j| in pixels."""
    places = centers(grid, pixels)
    return (places[:, None] - places[None]).square().sum(-1).sqrt()


def even_distance(grid: Grid, pixels: tuple[int, int]) -> float:
    """The mean distance where every patch attends to all patches alike: what to compare `attention_distance` with."""
    return float(distances(grid, pixels).mean())


def attention_distance(look: Look) -> Float[Tensor, "l h"]:
    """Mean over images and patch queries of Σ_j A_ij |center_i - center_j|, in pixels  [Dosovitskiy+ 2021, fig. 7 right, D.7].

    Attention to prefix tokens, which stand nowhere, is left out, and what remains of a row is divided by its sum. On a group the
    elements at a cell stand at the same place. A layer before a pooling has the finer grid of its own.
    """
    found = []
    for entry, weights in enumerate(look.seen.layers):
        if (windows := look.seen.about(entry).windows) is not None:
            found.append(window_distance(weights, windows, look))
            continue
        queries, keys = look.places(entry)
        if queries.index is not None or keys.index is not None:
            raise VitrailError("attention distance is between all patches of an image, and some were dropped")
        numbers = look.seen.about(entry).queries
        if keys.merges:
            if len(numbers) < look.seen.about(entry).query_count:
                raise VitrailError("attention distance of merged tokens needs all queries, and only some were recorded")
            weights = spread_weights(weights, keys)
            numbers = list(range(weights.shape[2]))
        grid = spatial(keys.grid)
        cells = grid[0] * grid[1]
        asking = [row for row, token in enumerate(numbers) if token >= queries.prefix]
        if not asking:
            raise VitrailError("attention distance is that of patches, and no patch is among the recorded queries")
        here = [(numbers[row] - queries.prefix) % cells for row in asking]
        reads = weights[:, :, asking, keys.prefix :]
        reads = reads.reshape(*reads.shape[:3], -1, cells).sum(3)  # b h n c, elements together
        reads = reads / reads.sum(-1, keepdim=True).clamp(min=torch.finfo(reads.dtype).tiny)
        apart = distances(grid, look.image_size).to(reads)[here]  # n c
        found.append((reads * apart).sum(-1).mean(dim=(0, 2)))  # h
    return stack_layers(found)


def window_distance(weights: Float[Tensor, "bw h n m"], windows: Windows, look: Look) -> Float[Tensor, "h"]:
    """The same of a layer that attends within windows: what goes to padding, and what padding asks, is left out."""
    cells = window_cells(windows, weights.device)
    real = cells >= 0
    places = centers(windows.grid, look.image_size).to(weights)[cells.clamp(min=0)]  # w n 2
    apart = (places[:, :, None] - places[:, None]).square().sum(-1).sqrt()  # w n m
    reads = weights.view(-1, len(cells), *weights.shape[1:]) * real[:, None, None]  # b w h n m
    reads = reads / reads.sum(-1, keepdim=True).clamp(min=torch.finfo(reads.dtype).tiny)
    far = (reads * apart[:, None]).sum(-1).transpose(2, 3)[:, real]  # b cells h
    return far.mean((0, 1))


def stack_layers(found: list[Float[Tensor, "..."]]) -> Float[Tensor, "l ..."]:
    """One row a layer, as many heads as the layer with most of them has: what others have not is NaN."""
    most = max(len(part) for part in found)
    whole = [part.new_full((most,) * part.ndim, torch.nan) for part in found]
    for row, part in zip(whole, found, strict=True):
        row[tuple(slice(side) for side in part.shape)] = part
    return torch.stack(whole)
