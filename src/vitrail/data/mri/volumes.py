"""Volumes of NIfTI files, and their slices as images of a given size.

x to the patient's right, y to the front, z up; h rows, w columns
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float32

from vitrail.data.volumes.reading import open_volume


@dataclass(frozen=True)
class Volume:
    """Magnitudes, and the length of a voxel's edges in one unit."""

    values: Float32[np.ndarray, "x y z"]
    spacing: tuple[float, float, float]


def read_volume(path: Path) -> Volume:
    """A NIfTI file's one volume, turned so that its axes point right, front and up; below zero and not finite is nothing."""
    file = open_volume(path)
    return Volume(file.read().clip(min=0), file.spacing)


def cut_plane(volume: Volume, axis: int, position: int, size: tuple[int, int]) -> Float32[np.ndarray, "h w"]:
    """One slice as radiologists look at it: front or top of the head up, and the patient's right (or front) on the left."""
    across = [other for other in range(3) if other != axis]
    plane = np.moveaxis(volume.values, axis, 0)[position, ::-1, ::-1].T  # rows along the later axis, from its far end
    return fit_plane(plane, (volume.spacing[across[1]], volume.spacing[across[0]]), size)


def fit_plane(
    plane: Float32[np.ndarray, "rows columns"], spacing: tuple[float, float], size: tuple[int, int]
) -> Float32[np.ndarray, "h w"]:
    """The whole plane as large as it fits into `size` with square pixels, and nothing around it."""
    lengths = plane.shape[0] * spacing[0], plane.shape[1] * spacing[1]
    scale = min(size[0] / lengths[0], size[1] / lengths[1])
    inner = max(round(lengths[0] * scale), 1), max(round(lengths[1] * scale), 1)
    image = torch.from_numpy(np.ascontiguousarray(plane))[None, None]
    image = F.interpolate(image, size=inner, mode="bicubic", antialias=True, align_corners=False).clamp(min=0)[0, 0]
    top, left = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    return F.pad(image, (left, size[1] - inner[1] - left, top, size[0] - inner[0] - top)).numpy()
