"""Windows over a volume that is never in memory whole: what is finished is given away, slab by slab.

ch channels, k classes, x y z sides of the volume, s slices of a slab
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.sliding import Blend, batched, cut_windows, spans, window_weight


class Slab(NamedTuple):
    """What is said of the slices begin to end of a volume, along its last axis."""

    begin: int
    end: int
    scores: Float[Tensor, "k x y s"]


def stream(
    predict: Callable[[Float[Tensor, "b ch *window"]], Float[Tensor, "b k *window"]],
    read: Callable[[int, int], Float[Tensor, "ch x y s"]],
    *,
    size: Sequence[int],
    window: Sequence[int],
    overlap: float = 0.5,
    blend: Blend = "gaussian",
    batch: int = 4,
) -> Iterator[Slab]:
    """`slide` of the volume that `read(begin, end)` gives in slices: the same windows, weights and scores, in order along the last axis.

    A slice is finished when no later window reaches it. In memory are the scores of as many slices as a window has: k x y s numbers, however
    many slices the volume has.
    """
    if len(size) != 3 or len(window) != 3:
        raise VitrailError(f"a volume and a window have three sides, got {tuple(size)} and {tuple(window)}")
    sides = tuple(min(side, length) for side, length in zip(window, size, strict=True))
    places = [place[:2] for place in cut_windows((*size[:2], sides[2]), sides, overlap=overlap)]
    starts = [place[0] for place in cut_windows(size[2:], sides[2:], overlap=overlap)]
    weight = window_weight(sides, blend)
    total: Tensor | None = None
    count = torch.zeros(*size[:2], sides[2])
    for start, after in zip(starts, [*starts[1:], size[2]], strict=True):
        slices = read(start, start + sides[2])
        for some in batched(places, batch):
            found = predict(torch.stack([slices[(slice(None), *spans(place, sides[:2]))] for place in some]))
            for place, part in zip(some, found, strict=True):
                if total is None:
                    total = part.new_zeros(part.shape[0], *size[:2], sides[2])
                    weight, count = weight.to(part), count.to(part)
                here = spans(place, sides[:2])
                total[(slice(None), *here)] += part * weight
                count[here] += weight
        assert total is not None
        done = after - start
        yield Slab(start, after, total[..., :done] / count[..., :done])
        for kept in (total, count):  # what later windows go on with moves to the front
            left = kept[..., done:].clone()
            kept.zero_()[..., : left.shape[-1]] = left
