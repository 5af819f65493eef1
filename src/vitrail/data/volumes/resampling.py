"""Voxels of another size: a volume by linear interpolation, labels by the nearest voxel, plane by plane so that neither has to fit into memory.

x y z sides, x2 y2 the new ones
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Shaped

from vitrail.errors import VitrailError

MOST_VOXELS = 2**30
Sides = tuple[int, int, int]
Edges = tuple[float, float, float]


def new_size(size: Sides, spacing: Edges, wanted: Edges) -> Sides:
    """How many voxels of edges `wanted` fill the same space, at least 1 along each axis."""
    x, y, z = (max(1, round(side * old / new)) for side, old, new in zip(size, spacing, wanted, strict=True))
    if x * y * z > MOST_VOXELS:
        raise VitrailError(f"{x} x {y} x {z} voxels of {wanted} mm are more than the {MOST_VOXELS:,} that are made")
    return x, y, z


def resample(source: Any, size: Sides, *, labels: bool = False, target: Any = None) -> Any:
    """The array `source` with `size` voxels in the same space, centers of voxels in the same places, into `target` or a new array.

    Both may be arrays in files: a plane is made of the two source planes around it.
    """
    if target is None:
        target = np.empty(size, source.dtype if labels else np.float32)
    depth = source.shape[2]
    for number in range(size[2]):
        at = min(max((number + 0.5) * depth / size[2] - 0.5, 0), depth - 1)
        below = int(at)
        share = at - below
        if labels:
            plane = np.asarray(source[..., min(int((number + 0.5) * depth / size[2]), depth - 1)])
            target[..., number] = nearest(plane, size[:2])
            continue
        plane = np.asarray(source[..., below], dtype=np.float32)
        if share:
            plane = (1 - share) * plane + share * np.asarray(source[..., below + 1], dtype=np.float32)
        target[..., number] = linear(plane, size[:2])
    return target


def linear(plane: Shaped[np.ndarray, "x y"], size: tuple[int, int]) -> Shaped[np.ndarray, "x2 y2"]:
    if plane.shape == size:
        return plane
    image = torch.from_numpy(np.ascontiguousarray(plane, dtype=np.float32))[None, None]
    return F.interpolate(image, size=size, mode="bilinear", align_corners=False)[0, 0].numpy()


def nearest(plane: Shaped[np.ndarray, "x y"], size: tuple[int, int]) -> Shaped[np.ndarray, "x2 y2"]:
    """Each new voxel is the one that its center lies in."""
    rows, columns = (
        np.minimum(((np.arange(new) + 0.5) * old / new).astype(int), old - 1)
        for old, new in zip(plane.shape, size, strict=True)
    )
    return plane[rows][:, columns]
