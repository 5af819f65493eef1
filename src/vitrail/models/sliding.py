"""Answers for every cell of an image or volume that is larger than what a model takes at a time: windows that overlap, blended.

b images, ch channels, k classes
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError

Blend = Literal["gaussian", "uniform"]
SPREAD = 0.125  # standard deviation of the Gaussian, as a share of the window's side  [Isensee+ 2021]


def slide(
    predict: Callable[[Float[Tensor, "b ch *window"]], Float[Tensor, "b k *window"]],
    images: Float[Tensor, "b ch *size"],
    *,
    window: Sequence[int],
    overlap: float = 0.5,
    blend: Blend = "gaussian",
    batch: int = 4,
) -> Float[Tensor, "b k *size"]:
    """sum_i w_i f(x_i) / sum_i w_i over the windows x_i, in as many dimensions as `window` has.

    An image that is smaller than the window is given whole; one window that is the whole image gives `predict(images)` itself.
    """
    size = images.shape[2:]
    if len(window) != len(size):
        raise VitrailError(f"a window of {len(window)} sides for images of {len(size)}: got {tuple(window)} and {tuple(size)}")
    sides = tuple(min(side, length) for side, length in zip(window, size, strict=True))
    if sides == tuple(size):
        return predict(images)
    weight = window_weight(sides, blend).to(images)
    whole = (slice(None), slice(None))  # batch and channels
    total, count = None, images.new_zeros(size)
    for places in batched(cut_windows(size, sides, overlap=overlap), batch):
        found = predict(torch.cat([images[whole + spans(place, sides)] for place in places]))
        for place, part in zip(places, found.reshape(len(places), len(images), *found.shape[1:]), strict=True):
            if total is None:
                total = part.new_zeros(len(images), part.shape[1], *size)
            here = spans(place, sides)
            total[whole + here] += part * weight
            count[here] += weight
    assert total is not None
    return total.div_(count)


def cut_windows(size: Sequence[int], window: Sequence[int], *, overlap: float) -> list[tuple[int, ...]]:
    """Where windows begin, in raster order: evenly spaced, the first and the last at the edges, neighbors sharing at least `overlap`."""
    if not 0 <= overlap < 1:
        raise VitrailError(f"windows overlap by a share from 0 to below 1, got {overlap}")
    starts = []
    for length, side in zip(size, window, strict=True):
        if side < 1:
            raise VitrailError(f"a window has sides of at least 1, got {tuple(window)}")
        room = max(0, length - side)
        count = 1 + math.ceil(room / max(1, int(side * (1 - overlap))))
        starts.append([0] if count == 1 else [round(room * number / (count - 1)) for number in range(count)])
    return list(itertools.product(*starts))


def window_weight(window: Sequence[int], blend: Blend) -> Float[Tensor, "*window"]:
    """How much each cell of a window's answer counts: those in the middle have seen all around them."""
    weight = torch.ones(())
    for side in window:
        offset = (torch.arange(side) - (side - 1) / 2) / (SPREAD * side)
        weight = weight[..., None] * (torch.exp(-0.5 * offset**2) if blend == "gaussian" else torch.ones(side))
    return weight.clamp(min=1e-3)


def spans(place: Sequence[int], window: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(begin, begin + side) for begin, side in zip(place, window, strict=True))


def batched(places: Sequence[tuple[int, ...]], count: int) -> Iterator[Sequence[tuple[int, ...]]]:
    for begin in range(0, len(places), count):
        yield places[begin : begin + count]
