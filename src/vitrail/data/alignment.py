"""Laying one thumbnail onto a window of another: the axis-parallel window and the gain that make them most alike.

A window is given per axis as (offset, extent) in [0, 1]. Reading one out is linear in the thumbnail, R_y T R_x^T, where each
row of R averages the pixels under one cell.

p pairs, t side of a thumbnail, c cells a side
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

STEP = 0.08  # the longest move a step, in sides of the image: beyond it the linear model means nothing
MARGIN = 0.03  # a window may reach so far outside, where rounding and resampling put the true one there
SMALLEST = 0.5  # extent of a window


class Windows(NamedTuple):
    """One window a pair."""

    top: Float[Tensor, "p"]
    height: Float[Tensor, "p"]
    left: Float[Tensor, "p"]
    width: Float[Tensor, "p"]


def axis_map(offset: Float[Tensor, "p"], extent: Float[Tensor, "p"], *, cells: int, side: int) -> Float[Tensor, "p c t"]:
    """R: row i averages the pixels under cell i of `cells` that divide [offset, offset + extent] of an axis of `side` pixels."""
    edges = (offset[:, None] + extent[:, None] * torch.arange(cells + 1) / cells) * side
    pixel = torch.arange(side)
    cover = torch.minimum(edges[:, 1:, None], pixel + 1.0) - torch.maximum(edges[:, :-1, None], pixel.float())
    cover = cover.clamp(min=0)
    return cover / cover.sum(2, keepdim=True).clamp(min=1e-3)


def standardize(x: Float[Tensor, "*b d"], *, least: float = 1e-3) -> Float[Tensor, "*b d"]:
    """Zero mean, unit norm; what varies by less than `least` a value comes out shorter, so that it resembles nothing."""
    x = x - x.mean(-1, keepdim=True)
    return x / x.norm(dim=-1, keepdim=True).clamp(min=least * x.shape[-1] ** 0.5)


def align(
    source: Float[Tensor, "p t t"], target: Float[Tensor, "p t t"], start: Windows, *, cells: int, steps: int
) -> tuple[Float[Tensor, "p"], Windows]:
    """The correlation of each target with its best window of the source, and that window.

    Gauss-Newton on  target ≈ g source(window) + b  in the gain g, the brightness b and the four numbers of the window
    [Lucas & Kanade 1981], with each model linearized where the last step led. The best window met is returned, so that more steps
    never harm.
    """
    side = source.shape[-1]
    whole = axis_map(torch.zeros(1), torch.ones(1), cells=cells, side=side)
    small = whole @ target @ whole.transpose(1, 2)  # p c c
    goal = standardize(small.flatten(1))
    place = (torch.arange(cells) + 0.5) / cells
    window, best, found = start, torch.full((len(source),), -1.0), start
    for step in range(steps + 1):
        rows = axis_map(window.top, window.height, cells=cells, side=side)
        columns = axis_map(window.left, window.width, cells=cells, side=side)
        view = rows @ source @ columns.transpose(1, 2)  # p c c
        score = (standardize(view.flatten(1)) * goal).sum(1)
        better = score > best
        best = torch.where(better, score, best)
        found = Windows(*(torch.where(better, new, old) for new, old in zip(window, found, strict=True)))
        if step < steps:
            window = _move(window, view, small, place)
    return best, found


def _move(window: Windows, view: Tensor, small: Tensor, place: Tensor) -> Windows:
    """One step: least squares of `small` on [view, 1, d view / d (top, height, left, width)]."""
    cells = len(place)
    down, right = torch.gradient(view, dim=(1, 2))
    down, right = down * (cells / window.height)[:, None, None], right * (cells / window.width)[:, None, None]
    columns = [view, torch.ones_like(view), down, down * place[:, None], right, right * place]
    design = torch.stack(columns, -1).flatten(1, 2)  # p c*c 6
    norms = design.norm(dim=1, keepdim=True).clamp(min=1e-3)
    design = design / norms
    gram = design.transpose(1, 2) @ design + 1e-4 * torch.eye(6)  # an image that varies along one axis only stays solvable
    solution = torch.linalg.solve(gram, design.transpose(1, 2) @ small.flatten(1)[..., None])[..., 0] / norms[:, 0]
    moves = (solution[:, 2:] / solution[:, :1].abs().clamp(min=0.1)).clamp(-STEP, STEP)
    height = (window.height + moves[:, 1]).clamp(SMALLEST, 1 + MARGIN)
    width = (window.width + moves[:, 3]).clamp(SMALLEST, 1 + MARGIN)
    top = torch.minimum((window.top + moves[:, 0]).clamp(min=-MARGIN), 1 + MARGIN - height)
    left = torch.minimum((window.left + moves[:, 2]).clamp(min=-MARGIN), 1 + MARGIN - width)
    return Windows(top, height, left, width)
