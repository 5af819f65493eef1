"""Boxes: two ways to state one, and how much two of them overlap.

n boxes, m other boxes
"""

import torch
from jaxtyping import Float
from torch import Tensor


def to_corners(boxes: Float[Tensor, "*n 4"]) -> Float[Tensor, "*n 4"]:
    """cx cy w h as x0 y0 x1 y1."""
    center, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([center - half, center + half], dim=-1)


def to_centers(boxes: Float[Tensor, "*n 4"]) -> Float[Tensor, "*n 4"]:
    """x0 y0 x1 y1 as cx cy w h."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return torch.cat([(low + high) / 2, high - low], dim=-1)


def box_area(boxes: Float[Tensor, "*n 4"]) -> Float[Tensor, "*n"]:
    """Of corners; a box turned inside out has none."""
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1)


def overlap(a: Float[Tensor, "*#n 4"], b: Float[Tensor, "*#n 4"]) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n"]]:
    """Intersection over union of corners, pair by pair as far as they broadcast, and the union's area. Two empty boxes overlap by 0."""
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    union = box_area(a) + box_area(b) - shared
    return torch.where(union > 0, shared / union.clamp(min=1e-9), 0.0), union


def generalized_overlap(a: Float[Tensor, "*#n 4"], b: Float[Tensor, "*#n 4"]) -> Float[Tensor, "*n"]:
    """GIoU = IoU - (|C| - |A u B|) / |C|, with C the hull of both: -1 to 1, and a gradient where they do not touch  [Rezatofighi+ 2019]."""
    share, union = overlap(a, b)
    low, high = torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
    hull = (high - low).clamp(min=0).prod(dim=-1)
    return share - torch.where(hull > 0, (hull - union) / hull.clamp(min=1e-9), 0.0)


def all_pairs(a: Float[Tensor, "n 4"], b: Float[Tensor, "m 4"]) -> tuple[Float[Tensor, "n 1 4"], Float[Tensor, "1 m 4"]]:
    """Two lists shaped so that the functions above give a table n m."""
    return a[:, None], b[None]
