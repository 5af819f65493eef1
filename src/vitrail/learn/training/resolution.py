"""Progressive resolution: small pictures first, which cost less, and the full size before the end.

b batch, ch channels, h w picture
"""

from typing import Any

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

GROWING = 0.6  # share of the run in which pictures grow


def size_at(done: float, full: tuple[int, int], *, start: float, multiple: int) -> tuple[int, int]:
    """The size at a share `done` of the run: `start` times the full one at first, then linearly more  [Tan+ 2021, algorithm 1].

    A side is a multiple of `multiple`, as patches need it, and the full one for the last two fifths.
    """
    share = start + (1.0 - start) * min(1.0, done / GROWING)
    if share >= 1.0:
        return full
    height, width = (min(side, max(1, round(share * side / multiple)) * multiple) for side in full)
    return height, width


def shrink(batch: Any, size: tuple[int, int]) -> Any:
    """A batch, a NamedTuple whose first part is pictures, with these at another size."""
    images: Float[Tensor, "b ch h w"] = batch[0]
    if tuple(images.shape[-2:]) == size:
        return batch
    return type(batch)(F.interpolate(images, size=size, mode="bilinear", antialias=True), *batch[1:])
