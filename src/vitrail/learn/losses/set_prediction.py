"""Set prediction: which answer is to be which object, and how far all of them are from that.

b images, q queries, k classes (and one more for nothing, where they share a softmax), n objects, l blocks, m noised objects, p pairs
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.extras import need
from vitrail.models.detections import Detected, Noised, Targets
from vitrail.nn.functional.boxes import all_pairs, generalized_overlap, to_corners

ALPHA, GAMMA = 0.25, 2.0  # of the focal loss [Lin+ 2017, section 5.1]


class LossWeights(NamedTuple):
    """What each term counts  [Carion+ 2020, A.2]; the same in the matching, but for the class where it has a cost of its own."""

    classes: float = 1.0
    boxes: float = 5.0
    overlap: float = 2.0
    nothing: float = 0.1  # of an answer that shall be nothing, in the softmax: there are so many of them
    focal_match: float = 2.0  # of the class in the matching with sigmoids [Zhu+ 2021, section 5]


WEIGHTS = LossWeights()


class Pairs(NamedTuple):
    """Answers and objects that belong together."""

    image: Int[Tensor, "p"]
    query: Int[Tensor, "p"]
    target: Int[Tensor, "p"]  # its number in its image


@torch.no_grad()
def match(
    logits: Float[Tensor, "b q k"],
    boxes: Float[Tensor, "b q 4"],
    targets: Sequence[Targets],
    *,
    focal: bool,
    weights: LossWeights = WEIGHTS,
    repeats: int = 1,
) -> Pairs:
    """The one-to-one pairing of least cost  [Carion+ 2020, eq. 1], by the Hungarian method, image by image.

    With `repeats` each object is there so many times, and up to so many answers are paired with it  [Jia+ 2023, section 3.2].

    cost = w_c · c(class) + w_b |b - b'|_1 - w_o GIoU(b, b') with c = -p(class) of a softmax, or the focal loss's difference between
    this class and not it for sigmoids [Zhu+ 2021]. What is not a number costs most. More objects than queries: the surplus has none.
    """
    assign = need("scipy.optimize", "detect").linear_sum_assignment
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for image, (said, placed, target) in enumerate(zip(logits.float(), boxes.float(), targets, strict=True)):
        if not len(target.classes):
            continue
        kinds, goal = target.classes.long(), target.boxes.to(placed)
        ours, theirs = all_pairs(to_corners(placed), to_corners(goal))
        cost = weights.boxes * torch.cdist(placed, goal, p=1) - weights.overlap * generalized_overlap(ours, theirs)
        if focal:
            cost = cost + weights.focal_match * focal_cost(said)[:, kinds]
        else:
            cost = cost - weights.classes * said.softmax(-1)[:, kinds]
        most = torch.finfo(cost.dtype).max
        rows, columns = assign(np.tile(cost.nan_to_num(most, most, most).cpu().numpy(), repeats))
        query, which = (torch.as_tensor(side, dtype=torch.int64) for side in (rows, columns % len(kinds)))
        found.append((torch.full_like(query, image), query, which))
    if not found:
        nobody = torch.zeros(0, dtype=torch.int64, device=logits.device)
        return Pairs(nobody, nobody, nobody)
    return Pairs(*(torch.cat(side).to(logits.device) for side in zip(*found, strict=True)))


def focal_cost(logits: Float[Tensor, "q k"]) -> Float[Tensor, "q k"]:
    """FL(p, this class) - FL(p, not this class)  [Zhu+ 2021, published code]."""
    p = logits.sigmoid()
    is_it = ALPHA * (1 - p) ** GAMMA * F.softplus(-logits)
    is_not = (1 - ALPHA) * p**GAMMA * F.softplus(logits)
    return is_it - is_not


def set_loss(
    detected: Detected, targets: Sequence[Targets], *, focal: bool, weights: LossWeights = WEIGHTS, matches_per_object: int = 1
) -> Float[Tensor, ""]:
    """sum over the decoder's blocks of  w_c L_class + (w_b |b - b'|_1 + w_o (1 - GIoU)) / N  [Carion+ 2020, eq. 2 and A.2].

    N is the number of objects in the batch. Each block's answers are matched by themselves; those to noised objects need no matching, and
    count as much, by the number of them. `matches_per_object`: how many of the first answers may stand for each object; the others shall learn to
    choose among those.
    """
    boxes = torch.cat([target.boxes for target in targets]).to(detected.boxes)  # of all images, one behind the other
    classes = torch.cat([target.classes for target in targets]).long().to(boxes.device)
    counts = torch.tensor([len(target.classes) for target in targets], device=boxes.device)
    starts = counts.cumsum(0) - counts
    total = detected.boxes.new_zeros(())
    for number, (said, placed) in enumerate(zip(detected.logits, detected.boxes, strict=True)):
        repeats = 1 if number else matches_per_object
        count = max(1, repeats * len(classes))
        pairs = match(said, placed, targets, focal=focal, weights=weights, repeats=repeats)
        chosen = starts[pairs.image] + pairs.target
        goal = torch.full(said.shape[:2], -1, dtype=torch.int64, device=said.device)  # b q; -1: nothing
        goal[pairs.image, pairs.query] = classes[chosen]
        everyone = torch.ones_like(goal, dtype=torch.bool)
        total = total + weights.classes * class_loss(said, goal, everyone, count, focal=focal, weights=weights)
        total = total + box_loss(placed[pairs.image, pairs.query], boxes[chosen], count, weights=weights)
    if detected.noised is not None:
        total = total + noised_loss(detected.noised, classes, boxes, starts, focal=focal, weights=weights)
    return total


def noised_loss(
    noised: Noised,
    classes: Int[Tensor, "n"],
    boxes: Float[Tensor, "n 4"],
    starts: Int[Tensor, "b"],
    *,
    focal: bool,
    weights: LossWeights,
) -> Float[Tensor, ""]:
    """Each answer to a noised object against the object itself, or nothing where it was noised too far  [Li+ 2022, eq. 3; Zhang+ 2023]."""
    total = noised.boxes.new_zeros(())
    learns = noised.real & noised.positive
    count = max(1, int(learns.sum()))
    if not len(classes):
        return total
    which = (starts[:, None] + noised.which).clamp(max=len(classes) - 1)  # fillers may point behind the last
    goal = torch.where(learns, classes[which], -1)
    for said, placed in zip(noised.logits, noised.boxes, strict=True):
        total = total + weights.classes * class_loss(said, goal, noised.real, count, focal=focal, weights=weights)
        total = total + box_loss(placed[learns], boxes[which[learns]], count, weights=weights)
    return total


def class_loss(
    logits: Float[Tensor, "b q k"],
    goal: Int[Tensor, "b q"],
    real: Bool[Tensor, "b q"],
    count: int,
    *,
    focal: bool,
    weights: LossWeights,
) -> Float[Tensor, ""]:
    """Cross-entropy, in which nothing is the last class and weighs less; or the focal loss  -a (1 - p)^g log p  of each class by itself,
    over the number of objects  [Lin+ 2017, eq. 5]. A goal of -1 is nothing; what is not real costs nothing."""
    if focal:
        one_hot = F.one_hot(goal.clamp(min=0), logits.shape[-1]) * (goal >= 0)[..., None]
        return (focal_terms(logits, one_hot.to(logits)) * real[..., None]).sum() / count
    last = logits.shape[-1] - 1
    goal = torch.where(goal < 0, last, goal)
    share = torch.where(goal == last, weights.nothing, 1.0).to(logits) * real
    terms = F.cross_entropy(logits.flatten(0, 1), goal.flatten(), reduction="none").view_as(share)
    return (terms * share).sum() / share.sum().clamp(min=1e-9)


def focal_terms(logits: Float[Tensor, "*b k"], goal: Float[Tensor, "*b k"]) -> Float[Tensor, "*b k"]:
    p = logits.sigmoid()
    missed = p * (1 - goal) + (1 - p) * goal
    alpha = ALPHA * goal + (1 - ALPHA) * (1 - goal)
    return alpha * missed**GAMMA * F.binary_cross_entropy_with_logits(logits, goal, reduction="none")


def box_loss(boxes: Float[Tensor, "p 4"], goal: Float[Tensor, "p 4"], count: int, *, weights: LossWeights) -> Float[Tensor, ""]:
    """w_b |b - b'|_1 + w_o (1 - GIoU), over the number of objects."""
    apart = (boxes - goal).abs().sum()
    missing = (1 - generalized_overlap(to_corners(boxes), to_corners(goal))).sum()
    return (weights.boxes * apart + weights.overlap * missing) / count
