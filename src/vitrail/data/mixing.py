"""Two images in one: mixup blends them, cutmix pastes a rectangle of one into the other; the targets share alike.

The partner of an image is the one as far from the batch's end as it is from the beginning, as in timm. One draw a batch, a
function of (seed, epoch, the batch's first index): whoever makes the batch, it comes out the same. Of several processes each
mixes its own share of the batch.

b batch, ch channels, h w image, k classes
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError

STREAM = 0x4D69787570  # joined to the key: draws of its own


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixing:
    """Lambda, the share of an image that is its own, is drawn from Beta(alpha, alpha): small alphas mix little."""

    mixup: float = 0.0  # alpha of mixup; 0: never
    cutmix: float = 0.0  # alpha of cutmix; 0: never. With both, each takes half of the mixed batches
    share: float = 1.0  # of the batches are mixed

    def __post_init__(self) -> None:
        for name in ("mixup", "cutmix"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise VitrailError(f"the alpha of {name} must be 0 or more, got {getattr(self, name)}")
        if not 0.0 <= self.share <= 1.0:
            raise VitrailError(f"the share of mixed batches must be from 0 to 1, got {self.share}")

    def __bool__(self) -> bool:
        return self.share > 0 and (self.mixup > 0 or self.cutmix > 0)


def mix(
    images: Float[Tensor, "b ch h w"],
    targets: Float[Tensor, "b k"],
    how: Mixing,
    *,
    seed: int,
    epoch: int,
    indices: np.ndarray,
) -> tuple[Float[Tensor, "b ch h w"], Float[Tensor, "b k"]]:
    """The batch blended with its own reverse, by mixup or by cutmix, or left as it is."""
    if not how:
        return images, targets
    generator = np.random.Generator(np.random.Philox([STREAM, seed % 2**64, epoch, int(indices[0])]))
    mixed, pasted = generator.random(2)
    if mixed >= how.share:
        return images, targets
    if how.cutmix and (pasted < 0.5 or not how.mixup):
        kept = float(generator.beta(how.cutmix, how.cutmix))
        row, column = (float(place) for place in generator.random(2))
        return cutmix(images, targets, box(kept, row, column, images.shape[-2], images.shape[-1]))
    return mixup(images, targets, float(generator.beta(how.mixup, how.mixup)))


def mixup(
    images: Float[Tensor, "b ch h w"], targets: Float[Tensor, "b k"], kept: float
) -> tuple[Float[Tensor, "b ch h w"], Float[Tensor, "b k"]]:
    """lambda x_i + (1 - lambda) x_j, and the targets alike  [Zhang+ 2018, eq. 1]."""
    return blend(images, kept), blend(targets, kept)


def cutmix(
    images: Float[Tensor, "b ch h w"], targets: Float[Tensor, "b k"], box: tuple[int, int, int, int]
) -> tuple[Float[Tensor, "b ch h w"], Float[Tensor, "b k"]]:
    """M x_i + (1 - M) x_j with M zero in the box; the targets by the box's true share of the area  [Yun+ 2019, eq. 1]."""
    top, bottom, left, right = box
    out = images.clone()
    out[:, :, top:bottom, left:right] = images.flip(0)[:, :, top:bottom, left:right]
    kept = 1 - (bottom - top) * (right - left) / (images.shape[-2] * images.shape[-1])
    return out, blend(targets, kept)


def box(kept: float, row: float, column: float, height: int, width: int) -> tuple[int, int, int, int]:
    """A box of about 1 - kept of the area, of the image's aspect, about a middle at (row, column) in [0, 1): top, bottom, left,
    right. Cut off where it would leave the image  [Yun+ 2019, eq. 2]."""
    side = math.sqrt(1 - kept)
    ends = []
    for place, length in ((row, height), (column, width)):
        middle, extent = int(place * length), round(side * length)
        start = middle - extent // 2
        ends += [max(0, start), min(length, start + extent)]
    return ends[0], ends[1], ends[2], ends[3]


def blend(x: Float[Tensor, "b *rest"], kept: float) -> Float[Tensor, "b *rest"]:
    return kept * x + (1 - kept) * x.flip(0)
