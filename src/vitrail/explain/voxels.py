"""What a place of a volume reads in the 3-D encoder: layer by layer and head by head, in the window around it.

ch channels, k classes, a heads, x y z sides of a volume, gx gy gz grid of patches, i j l sides of the grid that a place reads
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float32, Integer
from torch import Tensor

from vitrail.data.volumes.parts import keep_largest
from vitrail.errors import VitrailError
from vitrail.explain.evaluating import evaluating
from vitrail.explain.pixels import uncertainty
from vitrail.explain.record import record
from vitrail.models.sliding import spans
from vitrail.models.sliding_volume import stream
from vitrail.models.volume_segmenter import VolumeSegmenter

Voxel = tuple[int, int, int]


class LabelledVolume(NamedTuple):
    """The likeliest class of each voxel, and how unsure it is, from 0 to 1."""

    classes: Integer[np.ndarray, "x y z"]
    unsure: Float[np.ndarray, "x y z"]


@dataclass(frozen=True, kw_only=True)
class VoxelLook:
    """What the patch around a voxel reads. Maps are shares, each sums to 1; the first of their cells begins at the voxel `begin`, which may be
    outside of the volume, and a cell has `patch` voxels a side."""

    place: Voxel
    begin: Voxel
    patch: int
    layers: Sequence[Float[Tensor, "a i j l"]]


def label_volume(
    model: VolumeSegmenter, volume: Float32[np.ndarray, "x y z"], *, overlap: float = 0.5, batch: int = 2
) -> LabelledVolume:
    """Window by window, as `vitrail predict` does it."""

    def read(begin: int, end: int) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(volume[..., begin:end]))[None]

    classes = np.zeros(volume.shape, np.uint8 if model.num_classes <= 2**8 else np.uint16)
    unsure = np.zeros(volume.shape, np.float16)
    with evaluating(model), torch.inference_mode():
        for slab in stream(model, read, size=volume.shape, window=model.image_size, overlap=overlap, batch=batch):
            chances = slab.scores.float().softmax(0)
            classes[..., slab.begin : slab.end] = chances.argmax(0).numpy()
            unsure[..., slab.begin : slab.end] = uncertainty(chances).numpy()
    keep_largest(classes, model.config.largest)
    return LabelledVolume(classes, unsure)


def middle_of_largest(classes: Integer[np.ndarray, "x y z"], label: int | None = None) -> Voxel:
    """The voxel of the largest part in one piece, of a class or of all but the background, that is nearest to the part's middle; of a volume
    without any, its own middle."""
    inside = (classes == label if label is not None else classes > 0).astype(np.uint8)
    keep_largest(inside, (1,))
    voxels = np.argwhere(inside)
    if not len(voxels):
        x, y, z = (side // 2 for side in classes.shape)
        return x, y, z
    x, y, z = voxels[((voxels - voxels.mean(0)) ** 2).sum(1).argmin()].tolist()
    return x, y, z


@torch.no_grad()
def look_at_voxel(model: VolumeSegmenter, volume: Float32[np.ndarray, "x y z"], place: Voxel) -> VoxelLook:
    """The window of the model's size that has the place in its middle, as far as the volume goes, and what its patch reads there."""
    for at, side, axis in zip(place, volume.shape, "xyz", strict=True):
        if not 0 <= at < side:
            raise VitrailError(f"the voxel {' '.join(map(str, place))} is outside: {axis} goes from 0 to {side - 1}")
    patch = int(model.config.patch)
    sides = tuple(min(wanted, length) for wanted, length in zip(model.image_size, volume.shape, strict=True))
    begin = tuple(
        min(max(0, at - side // 2), length - side) for at, side, length in zip(place, sides, volume.shape, strict=True)
    )
    piece = torch.from_numpy(np.ascontiguousarray(volume[spans(begin, sides)]))[None, None]
    cell = tuple((at - first) // patch for at, first in zip(place, begin, strict=True))
    with evaluating(model), record(model) as seen:
        model(piece)
    if model.architecture == "convolution_free":  # a row of the batch for each patch, which stands in the middle of its block
        block = int(model.config.block)
        x, y, z = ((side + patch - 1) // patch for side in sides)
        row = (cell[0] * y + cell[1]) * z + cell[2]
        layers = [weights[row, :, block**3 // 2].view(-1, block, block, block) for weights in seen.layers]
        first = tuple(at + (one - block // 2) * patch for at, one in zip(begin, cell, strict=True))
        return VoxelLook(place=place, begin=(first[0], first[1], first[2]), patch=patch, layers=layers)
    layers = []
    for kept, weights in zip(seen.kept, seen.layers, strict=True):
        assert kept.key_places is not None
        x, y, z = kept.key_places.grid
        token = kept.key_places.prefix + (cell[0] * y + cell[1]) * z + cell[2]
        layers.append(weights[0, :, token, kept.key_places.prefix :].view(-1, x, y, z))
    return VoxelLook(place=place, begin=(begin[0], begin[1], begin[2]), patch=patch, layers=layers)
