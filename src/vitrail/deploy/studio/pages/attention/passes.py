"""One pass of a model over one image, with cells of it erased or moved, and the attention that is kept of it.

h heads, n m prefix tokens and cells, gh gw grid, c cells, y x ch pixels
"""

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from vitrail.deploy.studio.studio_error import StudioError
from vitrail.explain.distances import centers
from vitrail.explain.evaluating import check_finite
from vitrail.explain.heads import entropy
from vitrail.explain.maps import REDUCE, reduce_heads
from vitrail.explain.record import record
from vitrail.explain.windows import image_weights
from vitrail.models.classifier import Classifier, to_probabilities

GENEROUS = 8  # weights stay in float32 as long as so many looks fit into the budget; float16 beyond that


@dataclass(slots=True)
class Look:
    """What one pass saw and said. `answers` are those already computed of it, as they were sent."""

    model: str  # its id
    version: object  # of its weights
    image: str
    grid: tuple[int, int]
    prefix: int
    has_class: bool  # whether the first prefix token is a class token
    seen: UInt8[np.ndarray, "y x ch"]
    probabilities: Float[Tensor, "k"]
    layers: list[Float[Tensor, "_ _ _"]]  # h n m; empty where the model has no attention, or too much of it for the budget
    milliseconds: float
    answers: dict[Any, bytes] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        weights = sum(layer.nbytes for layer in self.layers)
        return weights + self.seen.nbytes + self.probabilities.nbytes + sum(map(len, list(self.answers.values())))


def arrange(
    pixels: UInt8[np.ndarray, "y x ch"], grid: tuple[int, int], *, erased: Sequence[int], order: Sequence[int] | None
) -> UInt8[np.ndarray, "y x ch"]:
    """The image with cells erased, which means filled with its own mean color as `explain.occlusion` does, and then moved: place i
    shows what cell order[i] was. A cell keeps its number: `erased` are cells of the image, not places."""
    cells, (height, width) = math.prod(grid), pixels.shape[:2]
    if any(not 0 <= cell < cells for cell in erased):
        raise StudioError(f"Erased cells are numbers from 0 to {cells - 1}.")
    result = pixels.copy()
    color = np.round(pixels.mean((0, 1))).astype(np.uint8)
    rows, columns = edges(height, grid[0]), edges(width, grid[1])

    def area(cell: int) -> tuple[slice, slice]:
        row, column = divmod(cell, grid[1])
        return slice(rows[row], rows[row + 1]), slice(columns[column], columns[column + 1])

    for cell in set(erased):
        result[area(cell)] = color
    if order is None:
        return result
    if sorted(order) != list(range(cells)):
        raise StudioError(f"An order names each cell from 0 to {cells - 1} once.")
    if height % grid[0] or width % grid[1]:
        raise StudioError(
            f"The cells of this model ({height}x{width} pixels on a grid of {grid[0]}x{grid[1]}) are not all of one size, so they cannot change places."
        )
    before = result.copy()
    for place, cell in enumerate(order):
        result[area(place)] = before[area(cell)]
    return result


def edges(side: int, count: int) -> list[int]:
    """Where cells begin and end, in pixels: pixel i is in cell floor(i · count / side), as `explain.cells` has it."""
    return [-(-number * side // count) for number in range(count + 1)]


def run_pass(
    model: Classifier,
    images: Float[Tensor, "1 ch y x"],
    *,
    grid: tuple[int, int],
    prefix: int,
    elements: int,
    attention: bool,
    half: bool,
) -> tuple[Float[Tensor, "k"], list[Tensor], float]:
    """Probabilities, the weights of every layer between prefix tokens and cells, and the milliseconds it took."""
    start = time.perf_counter()
    layers: list[Tensor] = []
    with torch.inference_mode():
        if attention:
            with record(model) as seen:
                logits = model(images)[0].float()
            layers = [
                to_cells(weights[0], grid=grid, prefix=prefix, elements=elements)
                if kept.windows is None
                else image_weights(weights, kept.windows, grid=grid)[0]
                for weights, kept in zip(seen.layers, seen.kept, strict=True)
            ]
            layers = [weights.half() if half else weights for weights in layers]
        else:
            logits = model(images)[0].float()
        check_finite(logits)
        probabilities = to_probabilities(logits, multi_label=model.multi_label) if model.num_classes else logits[:0]
    return probabilities, layers, 1000 * (time.perf_counter() - start)


def to_cells(weights: Float[Tensor, "h q k"], *, grid: tuple[int, int], prefix: int, elements: int) -> Float[Tensor, "h n m"]:
    """Weights between the cells of `grid`, whatever the layer's own tokens are: of a group network they stand on elements × a grid that
    may be finer. Of the queries of a cell the mean is taken, of its keys the sum, so that rows still sum to 1."""
    cells = math.prod(grid)
    heads, queries, keys = weights.shape
    if queries == keys == prefix + cells:
        return weights
    fine, rest = divmod(queries, elements * cells)
    times = math.isqrt(fine)
    copies, left = divmod(keys, fine * cells) if fine else (0, 1)
    if prefix or rest or left or times * times != fine:
        raise StudioError(
            f"A layer's attention is between {queries} queries and {keys} keys, which are no cells of a {grid[0]}x{grid[1]} grid."
        )
    apart = weights.reshape(heads, elements, grid[0], times, grid[1], times, copies, grid[0], times, grid[1], times)
    return apart.mean((1, 3, 5)).sum((3, 5, 7)).reshape(heads, cells, cells)


def choose_layer(look: Look, layer: int) -> Float[Tensor, "h n m"]:
    if not look.layers:
        raise StudioError(
            "No attention is kept of this look: the model has none, or it does not fit the studio's memory (--memory)."
        )
    if not -len(look.layers) <= layer < len(look.layers):
        raise StudioError(f"Layer {layer} does not exist: this model has {len(look.layers)}, 0 to {len(look.layers) - 1}.")
    return look.layers[layer]


def choose_heads(weights: Float[Tensor, "h n m"], head: str) -> Float[Tensor, "n m"]:
    """One head by number, or the mean, largest or smallest weight of all."""
    for how in REDUCE:
        if head == how:
            return reduce_heads(weights.float()[None], how)[0]
    if not 0 <= to_number(head) < len(weights):
        raise StudioError(f"Head {head[:20]} does not exist: choose 0 to {len(weights) - 1}, mean, max or min.")
    return weights[to_number(head)].float()


def to_number(text: str) -> int:
    """A whole number of few plain digits, as addresses have them; -1 for anything else."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else -1


def find_query(look: Look, query: str) -> int | None:
    """The token of a cell's number, or of `class`; None for `received`, which is the mean over all queries."""
    cells = math.prod(look.grid)
    if query == "received":
        return None
    if query == "class":
        if not look.has_class:
            raise StudioError('This model has no class token: choose a cell, or "received".')
        return 0
    if not 0 <= to_number(query) < cells:
        raise StudioError(f'"{query[:20]}" is no cell: choose 0 to {cells - 1}, "class" or "received".')
    return look.prefix + to_number(query)


def attention_row(look: Look, *, layer: int, head: str, query: str) -> dict[str, Any]:
    """What one token attends to: shares of the cells and of the prefix tokens, how spread they are, and how far they reach."""
    token = find_query(look, query)
    weights = choose_layer(look, layer)
    # Cut before the heads are reduced: a hover takes one row of each head, not all.
    row = choose_heads(weights.float().mean(1, keepdim=True) if token is None else weights[:, token : token + 1], head)[0]
    share = (row / row.sum().clamp(min=1e-12)).double()
    cells = row[look.prefix :]
    distance = None if token is None or token < look.prefix else mean_distance(cells, look, token - look.prefix)
    return {
        "cells": cells,
        "prefix": row[: look.prefix],
        "sum_prefix": float(row[: look.prefix].sum()),
        "entropy_bits": max(0.0, float(entropy(share))),
        "distance_pixels": distance,
    }


def mean_distance(cells: Float[Tensor, "c"], look: Look, query: int) -> float:
    """Σ_j a_j |center_query − center_j| in pixels of what the model reads, prefix tokens left out  [Dosovitskiy+ 2021, figure 7]."""
    height, width = look.seen.shape[:2]
    places = centers(look.grid, (height, width)).double()
    distances = (places - places[query]).norm(dim=-1)  # of this query alone: a hover is to be quick
    return float((cells.double() * distances).sum() / cells.double().sum().clamp(min=1e-12))


def all_rows(look: Look, query: str) -> Float[Tensor, "layers h c"]:
    """What one token attends to in every layer and head."""
    token = find_query(look, query)
    choose_layer(look, 0)
    rows = [layer.float().mean(1) if token is None else layer[:, token].float() for layer in look.layers]
    return torch.stack(rows)[..., look.prefix :]
