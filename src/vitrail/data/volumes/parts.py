"""Parts of labelled voxels that hang together, slab by slab: labels may be larger than memory.

x y z sides of a volume, s slices of a slab
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
        pieces = join_pieces(labels, value)
        whole = np.bincount(pieces.part, weights=pieces.voxels)
        if np.count_nonzero(whole) < 2:
            continue
        dropped = pieces.part != whole.argmax()
        dropped[0] = False
        for begin, numbers in number_pieces(labels, value):
            slab = labels[..., begin : begin + SLICES]
            slab[dropped[numbers]] = 0


class Pieces:
    """Of the pieces of all slabs, in order: voxels, and the number of the first piece of the part that each belongs to. Piece 0 is what has
    another value."""

    def __init__(self) -> None:
        self.voxels, self.part = np.zeros(1, np.int64), np.zeros(1, np.int64)

    def add(self, numbers: Int[np.ndarray, "x y s"]) -> None:
        count = max(int(numbers.max()) + 1 - len(self.part), 0)
        self.part = np.concatenate([self.part, np.arange(len(self.part), len(self.part) + count)])
        self.voxels = np.bincount(numbers.ravel(), minlength=len(self.part)) + np.pad(self.voxels, (0, count))
        self.voxels[0] = 0

    def join(self, one: int, other: int) -> None:
        low, high = sorted((self.find(one), self.find(other)))
        self.part[high] = low

    def find(self, piece: int) -> int:
        while self.part[piece] != piece:
            self.part[piece] = self.part[self.part[piece]]  # shorter for the next one
            piece = int(self.part[piece])
        return piece


def join_pieces(labels: Any, value: int) -> Pieces:
    """The pieces of each slab, joined where one slab's last slice touches the next one's first."""
    pieces, before = Pieces(), None
    for _, numbers in number_pieces(labels, value):
        pieces.add(numbers)
        if before is not None:
            touching = (before > 0) & (numbers[..., 0] > 0)
            for one, other in np.unique(np.stack([before[touching], numbers[..., 0][touching]], 1), axis=0).tolist():
                pieces.join(one, other)
        before = numbers[..., -1]
    pieces.part = np.array([pieces.find(piece) for piece in range(len(pieces.part))])
    return pieces


def number_pieces(labels: Any, value: int) -> Iterator[tuple[int, Int[np.ndarray, "x y s"]]]:
    """Where each slab begins, and which piece its voxels belong to: numbered from 1 on, through all slabs."""
    morphology, past = need("scipy.ndimage", "medical"), 0
    for begin in range(0, labels.shape[2], SLICES):
        numbers, count = morphology.label(np.asarray(labels[..., begin : begin + SLICES]) == value)
        numbers[numbers > 0] += past
        past += count
        yield begin, numbers
