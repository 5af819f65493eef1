"""True objects with noise as queries: what a decoder learns from without waiting for a matching.

b images, n most objects of one, g groups, m noised objects, many with the matched queries
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.models.detections import Targets
from vitrail.nn.functional.boxes import to_centers, to_corners

FLIPPED = 0.2  # share of the classes that are others [Li+ 2022, section 5.1]
SHIFT = 0.4  # share of half a side by which each corner moves at most [Li+ 2022, section 5.1]; of a negative at least, and twice at most
MOST_GROUPS = 20


class NoisedQueries(NamedTuple):
    """Copies of every image's objects, group by group; all but `boxes` as in `Noised`."""

    classes: Int[Tensor, "b m"]  # what each is said to be
    boxes: Float[Tensor, "b m 4"]  # and where, cx cy w h
    which: Int[Tensor, "b m"]
    real: Bool[Tensor, "b m"]
    positive: Bool[Tensor, "b m"]
    group: Int[Tensor, "m"]

    def mask(self, queries: int) -> Bool[Tensor, "b 1 many many"]:
        """True = may look. The noised stand first. Each sees the real ones of its own group and the `queries` behind them; those see one
        another alone, so that they answer as if nothing else was there  [Li+ 2022, figure 5]."""
        together = (self.group[:, None] == self.group) & self.real[:, None]  # b m m
        noised = F.pad(together, (0, queries), value=True)
        matched = noised.new_ones(len(noised), queries, queries)
        return torch.cat([noised, F.pad(matched, (len(self.group), 0), value=False)], dim=1)[:, None]


def noise_targets(
    targets: Sequence[Targets],
    *,
    most: int,
    num_classes: int,
    negatives: bool,
    generator: torch.Generator | None = None,
) -> NoisedQueries | None:
    """About `most` queries, in groups of each image's objects; None where no image has any.

    Every corner of a box moves by up to SHIFT of half its side, and a share FLIPPED of the classes are drawn anew [Li+ 2022]. With
    `negatives` each group has its objects a second time, moved by SHIFT to twice of it: the answer to those is nothing [Zhang+ 2023].
    """
    longest = max(len(target.classes) for target in targets)
    if not longest:
        return None
    kinds, device = 1 + negatives, targets[0].boxes.device
    groups = min(MOST_GROUPS, max(1, most // (kinds * longest)))
    slots = torch.arange(longest, device=device)
    filled = torch.stack([slots < len(target.classes) for target in targets])  # b n
    classes, boxes = (
        filled.new_zeros(filled.shape, dtype=torch.int64),
        filled.new_zeros((*filled.shape, 4), dtype=torch.float32),
    )
    classes[filled] = torch.cat([target.classes for target in targets]).long()
    boxes[filled] = torch.cat([target.boxes for target in targets]).float()
    times = groups * kinds
    classes, boxes, real = (part.repeat(1, times, *(1 for _ in part.shape[2:])) for part in (classes, boxes, filled))
    number = torch.arange(times * longest, device=device)
    positive = (number // longest % kinds == 0).expand_as(real)

    def draw(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator).to(device)

    others = (draw(*classes.shape) * num_classes).long().clamp(max=num_classes - 1)
    said = torch.where(draw(*classes.shape) < FLIPPED, others, classes)
    far = SHIFT * (draw(*boxes.shape) + ~positive[..., None]) * torch.where(draw(*boxes.shape) < 0.5, -1.0, 1.0)
    corners = to_corners(boxes) + far * boxes[..., 2:].repeat(1, 1, 2) / 2
    moved = to_centers(corners.clamp(0, 1))
    which = slots.repeat(times).expand_as(real)
    return NoisedQueries(said, moved, which, real, positive, number // (kinds * longest))
