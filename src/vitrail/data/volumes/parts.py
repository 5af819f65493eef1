"""Parts of labelled voxels that hang together, slab by slab: labels may be larger than memory.

p pieces, x y z sides of a volume, s slices of a slab
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Int

from vitrail.extras import need

SLICES = 32  # in memory at a time


def keep_largest(labels: Any, values: Iterable[int]) -> None:
    """Of each value only its largest part in one piece stays, voxels that share a face being one piece; the others become 0. In place."""
    for value in values:
        part, voxels = join_pieces(labels, value)
        whole = np.bincount(part, weights=voxels)
        if np.count_nonzero(whole) < 2:
            continue
        dropped = part != whole.argmax()
        dropped[0] = False
        for begin, numbers in number_pieces(labels, value):
            slab = labels[..., begin : begin + SLICES]
            slab[dropped[numbers]] = 0


def join_pieces(labels: Any, value: int) -> tuple[Int[np.ndarray, "p"], Int[np.ndarray, "p"]]:
    """The part that each piece belongs to, and its voxels. Pieces are one part where a slab's last slice touches the next one's first.
    Piece 0, without voxels, is what has another value."""
    voxels, touching, before = np.zeros(1, np.int64), [np.empty((0, 2), np.int64)], None
    for _, numbers in number_pieces(labels, value):
        voxels = np.concatenate([voxels, np.bincount(numbers.ravel())[len(voxels) :]])
        if before is not None:
            both = (before > 0) & (numbers[..., 0] > 0)
            touching.append(np.unique(np.stack([before[both], numbers[..., 0][both]], 1), axis=0))
        before = numbers[..., -1]
    one, other = np.concatenate(touching).T
    graph = need("scipy.sparse", "medical").coo_array((np.ones(len(one)), (one, other)), shape=(len(voxels),) * 2)
    return need("scipy.sparse.csgraph", "medical").connected_components(graph, directed=False)[1], voxels


def number_pieces(labels: Any, value: int) -> Iterator[tuple[int, Int[np.ndarray, "x y s"]]]:
    """Where each slab begins, and which piece its voxels belong to: numbered from 1 on, through all slabs."""
    morphology, past = need("scipy.ndimage", "medical"), 0
    for begin in range(0, labels.shape[2], SLICES):
        numbers, count = morphology.label(np.asarray(labels[..., begin : begin + SLICES]) == value)
        numbers[numbers > 0] += past
        past += count
        yield begin, numbers
