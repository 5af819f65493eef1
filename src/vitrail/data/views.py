"""Views of an image: crops, each in other colors, to learn from what stays the same. A function of (seed, epoch, index, view) only.

b batch, ch channels, h w image, y x view, n small views, t numbers drawn for a view
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.data.cache import Cache
from vitrail.data.color_views import change_colors, solarize
from vitrail.data.dataset import Split
from vitrail.data.image_source import ImageReader, stack_unit
from vitrail.data.loader import Loader, OnBad
from vitrail.data.order import PlainOrder
from vitrail.data.randomness import uniforms
from vitrail.data.transforms import normalize
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing

VIEWS = 0x56696577734F6650  # joined to the seed, so that views draw numbers of their own
# The numbers of a view: area, aspect, top, left, mirror, jitter, four of color, gray, blur, its width, solarize.
NUMBERS = 14
ASPECT = 4 / 3  # widest, to its inverse
CUBIC = -0.5  # of the kernel, as Pillow has it
SHARP = 0.25  # pixels of deviation up to which a Gaussian changes no value by as much as 1 in 1000


class ViewBatch(NamedTuple):
    """Two large views of each image and n small ones; `indices` are the images' numbers in their split."""

    large: Float[Tensor, "b 2 ch y x"]
    small: Float[Tensor, "b n ch y2 x2"]
    labels: Int[Tensor, "b"] | Bool[Tensor, "b k"]
    indices: Int[Tensor, "b"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """How one view of an image is made: shares of its area, probabilities, and the strength of the change of colors."""

    size: tuple[int, int]
    area: tuple[float, float]
    blur: float
    solarize: float = 0.0
    jitter: float = 0.8
    gray: float = 0.2
    mirror: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.area[0] <= self.area[1] <= 1.0:
            raise VitrailError(
                f"a view has a share of the image's area from above 0 to 1, got {self.area[0]:g} to {self.area[1]:g}"
            )


def looks(
    size: tuple[int, int], small: tuple[int, int], count: int, *, mirror: bool, area: float, least: float = 0.05
) -> tuple[Look, ...]:
    """Two large looks, of which one is always blurred and one may be solarized, and `count` small ones of at most `area` of the
    image, which is the least of the large ones  [Caron+ 2021, section 3.1; colors of Grill+ 2020, appendix B]."""
    if count < 0:
        raise VitrailError(f"an image cannot have {count} small views")
    large = [
        Look(size=size, area=(area, 1.0), blur=1.0, mirror=mirror),
        Look(size=size, area=(area, 1.0), blur=0.1, solarize=0.2, mirror=mirror),
    ]
    # Below a share of 0.3 or so both kinds would be bits of texture; where the large ones may be small, small ones are no smaller.
    low = min(least, area)
    return (*large, *[Look(size=small, area=(low, max(low, area)), blur=0.5, mirror=mirror)] * count)


def draw_view(images: Float[Tensor, "b ch h w"], look: Look, draws: Float[np.ndarray, "b t"]) -> Float[Tensor, "b ch y x"]:
    """One view of each image in [0, 1].

    A crop, resized, mirrored and blurred, is R_rows X R_columns^T with two matrices per image: two products for all that is done to
    places. All that is done to colors is one matrix an image (`color_views`).
    """
    channels, size = images.shape[1], (images.shape[2], images.shape[3])
    sides, starts = boxes(size, look, draws[:, :4])
    mirrored = (draws[:, 4] < 0.5) & look.mirror
    width = np.where(draws[:, 11] < look.blur, blur_width(draws[:, 12], look.size), 0.0)
    rows, columns = (
        torch.from_numpy(reading(size[axis], look.size[axis], starts[axis], sides[axis], width, mirrored & (axis == 1)))
        for axis in (0, 1)
    )  # b y h, b x w
    tall = torch.bmm(rows, images.permute(0, 2, 1, 3).reshape(len(images), size[0], -1))  # b y (ch w)
    tall = tall.view(len(images), look.size[0], channels, size[1]).transpose(1, 2).reshape(len(images), -1, size[1])
    view = torch.bmm(tall, columns.transpose(1, 2)).view(len(images), channels, *look.size)
    view = change_colors(view, draws[:, 5:11], jitter=look.jitter, gray=look.gray).clamp_(
        0, 1
    )  # the kernel overshoots at edges
    return solarize(view, draws[:, 13] < look.solarize) if channels == 3 and look.solarize else view


def boxes(
    size: tuple[int, int], look: Look, draws: Float[np.ndarray, "b 4"]
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Height and width, top and left of what is cut out, in pixels and parts of them: always inside of the image, no aspect drawn
    twice, where torchvision draws until a box fits and cuts at whole pixels."""
    area = (look.area[0] + draws[:, 0] * (look.area[1] - look.area[0])) * size[0] * size[1]
    # Aspect is width over height: between what makes the box as wide, and as high, as the image.
    low = np.maximum(1 / ASPECT, area / size[0] ** 2)
    high = np.minimum(ASPECT, size[1] ** 2 / area)
    low, high = np.minimum(low, size[1] ** 2 / area), np.maximum(high, area / size[0] ** 2)
    aspect = low * (np.maximum(high, low) / low) ** draws[:, 1]  # uniform in its logarithm
    height, width = np.minimum(np.sqrt(area / aspect), size[0]), np.minimum(np.sqrt(area * aspect), size[1])
    return (height, width), (draws[:, 2] * (size[0] - height), draws[:, 3] * (size[1] - width))


def blur_width(draws: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Deviation of a Gaussian, in pixels of the view: 0.1 to 2 for 224 pixels, in proportion for others."""
    return (0.1 + 1.9 * draws) * min(size) / 224


def reading(
    source: int, target: int, start: np.ndarray, length: np.ndarray, blur: np.ndarray, mirrored: np.ndarray
) -> Float[np.ndarray, "b target source"]:
    """The matrix that reads `target` pixels from `length` of `source` pixels, from `start` on: bicubic, with a wider kernel where it
    shrinks, as Pillow's resize(box=...); then a Gaussian of deviation `blur`, then backwards where it is mirrored."""
    scale = (length / target)[:, None, None]
    centers = start[:, None, None] + (np.arange(target)[:, None] + 0.5) * scale  # b target 1
    away = (np.arange(source, dtype=np.float32) + 0.5 - centers.astype(np.float32)) / np.maximum(scale, 1.0).astype(np.float32)
    away = np.minimum(np.abs(away, out=away), 2.0, out=away)  # b target source; from 2 on the kernel is 0
    inner = ((CUBIC + 2) * away - (CUBIC + 3)) * away * away + 1
    outer = ((away - 5) * away + 8) * away * CUBIC - 4 * CUBIC
    weights = np.where(away < 1, inner, outer)
    weights /= weights.sum(2, keepdims=True)
    if len(chosen := np.flatnonzero(blur > SHARP)):
        gap = np.arange(target)[:, None] - np.arange(target)
        soft = np.exp(-0.5 * (gap / blur[chosen, None, None]) ** 2)
        weights[chosen] = (soft / soft.sum(2, keepdims=True)).astype(np.float32) @ weights[chosen]
    weights[mirrored] = weights[mirrored, ::-1]
    return weights


def make_views(
    images: Float[Tensor, "b ch h w"],
    wanted: tuple[Look, ...],
    *,
    seed: int,
    epoch: int,
    indices: Int[np.ndarray, "b"],
    first: int = 0,
) -> list[Float[Tensor, "b ch _ _"]]:
    """The views of numbers `first`, `first` + 1, ... of images in [0, 1]."""
    count = NUMBERS * (first + len(wanted))
    draws = uniforms(seed ^ VIEWS, epoch, indices, count=count).reshape(len(indices), -1, NUMBERS)
    return [draw_view(images, look, draws[:, first + number]) for number, look in enumerate(wanted)]


class ViewSource(ImageReader[ViewBatch]):
    """A split behind its preprocessing, as views."""

    def __init__(
        self, split: Split, preprocessing: Preprocessing, wanted: tuple[Look, ...], *, seed: int = 0, cache: Cache | None = None
    ) -> None:
        super().__init__(split, preprocessing, seed=seed, cache=cache)
        self.wanted = wanted

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[np.ndarray] | np.ndarray) -> ViewBatch:
        numbers, images = np.array(indices, dtype=np.int64), stack_unit(samples)
        views = make_views(images, self.wanted, seed=self.seed, epoch=epoch, indices=numbers)
        ready = [normalize(view, self.preprocessing) for view in views]
        small = torch.stack(ready[2:], dim=1) if len(ready) > 2 else images.new_empty(len(images), 0, *ready[0].shape[1:])
        return ViewBatch(torch.stack(ready[:2], dim=1), small, self.labels(numbers), torch.from_numpy(numbers))


def view_loader(
    split: Split, preprocessing: Preprocessing, *, wanted: tuple[Look, ...], batch: int, seed: int = 0, workers: int = 0,
    cache: Cache | None = None, on_bad: OnBad | None = None, rank: int = 0, world: int = 1,
) -> Loader[ViewBatch]:  # fmt: skip
    """Crops of the images of a split, to learn from."""
    source = ViewSource(split, preprocessing, wanted, seed=seed, cache=cache)
    order = PlainOrder(len(split), batch=batch, shuffle=True, seed=seed, rank=rank, world=world)
    return Loader(source, order, workers=workers, on_bad=on_bad)


def half_size(size: tuple[int, int], multiple: int) -> tuple[int, int]:
    """About half of each side, whole patches, at least one."""
    height, width = (max(multiple, math.floor(side / 2 / multiple + 0.5) * multiple) for side in size)
    return height, width
