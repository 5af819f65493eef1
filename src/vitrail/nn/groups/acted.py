"""Filters as each element of a group sees them: turned and mirrored copies of one learned filter.

g elements, s side of a filter, c cells of a filter (s times s)
"""

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.nn.groups.group import PlaneGroup


@lru_cache
def acting(group: PlaneGroup, side: int) -> Float[np.ndarray, "g c c"]:
    """acting[g] · w = L_g w, the filter w(g^-1·p) read off w by bilinear interpolation, 0 outside of it.

    For quarter turns and mirroring it is a permutation of the cells, so nothing is interpolated; between them the matrices still
    commute with those that are, which keeps the exact elements exact.
    """
    places = np.arange(side) - (side - 1) / 2
    cells = np.stack(np.meshgrid(places, places, indexing="ij"), axis=-1).reshape(-1, 2)  # c 2
    seen = group.act_on_offsets(cells)  # g c 2
    near = 1.0 - np.abs(seen[:, :, None] - cells[None, None])  # g c c 2: a hat of width 1 on each axis
    return np.clip(near, 0.0, None).prod(axis=-1)


def act_on_filters(group: PlaneGroup, weight: Float[Tensor, "... s s"]) -> Float[Tensor, "g ... s s"]:
    """One filter to its copies, one an element: a single matrix product, through which gradients add up in the one filter."""
    side = weight.shape[-1]
    matrices = torch.from_numpy(acting(group, side)).to(weight)  # g c c
    copies = torch.einsum("gpc,...c->g...p", matrices, weight.flatten(-2))
    return copies.reshape(*copies.shape[:-1], side, side)
