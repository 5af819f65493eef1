"""How far the surface of what is found lies from that of the truth, in mm.

n voxels of a surface
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from vitrail.extras import need


class SurfaceDistance(NamedTuple):
    """`mean`: over the voxels of both surfaces, the way to the other surface (average symmetric surface distance); `most`: the longer of both
    ways that 95 % of a surface's voxels do not exceed (95 % Hausdorff distance). Not a number where one of them is empty."""

    mean: float
    most: float


def surface_distance(
    found: Bool[np.ndarray, "*size"], truth: Bool[np.ndarray, "*size"], spacing: tuple[float, ...]
) -> SurfaceDistance:
    """mean (Σ_a d(a, B) + Σ_b d(b, A)) / (|A| + |B|), most max(P95 d(a, B), P95 d(b, A)); a and b are voxels of the surfaces A and B: those with
    a neighbor that is not of the class, beyond the edge of the volume too  [Heimann+ 2009, section III; Huttenlocher+ 1993]."""
    if not found.any() or not truth.any():
        return SurfaceDistance(float("nan"), float("nan"))
    box = bounds(found | truth)
    one, other = surface_of(found[box]), surface_of(truth[box])
    there, back = distances(one, other, spacing), distances(other, one, spacing)
    mean = (there.sum() + back.sum()) / (len(there) + len(back))
    return SurfaceDistance(float(mean), float(max(np.percentile(there, 95), np.percentile(back, 95))))


def bounds(mask: Bool[np.ndarray, "*size"]) -> tuple[slice, ...]:
    """The smallest box around what is True."""
    found = []
    for axis in range(mask.ndim):
        line = np.flatnonzero(mask.any(axis=tuple(other for other in range(mask.ndim) if other != axis)))
        found.append(slice(int(line[0]), int(line[-1]) + 1))
    return tuple(found)


def surface_of(mask: Bool[np.ndarray, "*size"]) -> Bool[np.ndarray, "*size"]:
    """Voxels of a mask that are not surrounded by it on all sides."""
    morphology = need("scipy.ndimage", "medical")
    return mask & ~morphology.binary_erosion(mask)


def distances(
    surface: Bool[np.ndarray, "*size"], other: Bool[np.ndarray, "*size"], spacing: tuple[float, ...]
) -> Float[np.ndarray, "n"]:
    """From each voxel of a surface to the nearest of another one."""
    morphology = need("scipy.ndimage", "medical")
    return morphology.distance_transform_edt(~other, sampling=spacing)[surface]
