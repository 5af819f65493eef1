"""Batches of slices, each accelerated by a mask that depends on (seed, epoch, slice) only, from any batch on.

b batch, c coils, h rows, w columns
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Complex, Int
from torch import Tensor

from vitrail.data.ahead import ahead
from vitrail.data.mri.masks import MaskKind, calibration_width, make_mask
from vitrail.data.mri.measuring import missing_lines
from vitrail.data.mri.sensitivities import estimate_maps
from vitrail.data.mri.slices import LazySlices, Slice, Slices, combine
from vitrail.data.randomness import uniforms
from vitrail.errors import VitrailError
from vitrail.nn.functional.fourier import to_image, to_kspace

Parts = tuple[Complex[Tensor, "c h w"], Complex[Tensor, "c h w"], Complex[Tensor, "h w"]]
REUSED = 4  # passes over one version of a slice, with other masks: simulating a scan may take longer than learning from it
ROOM = 2**30  # bytes of slices that are kept for the next epoch, at most


class ScanBatch(NamedTuple):
    """An accelerated scan of some slices and what a scan of all lines would give; `indices` are the slices' numbers."""

    kspace: Complex[Tensor, "b c h w"]  # zero where nothing was measured
    mask: Bool[Tensor, "b 1 w"]
    maps: Complex[Tensor, "b c h w"]
    target: Complex[Tensor, "b h w"]
    indices: Int[Tensor, "b"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """Which lines are measured: see `make_mask`. `center` is a share of all lines; None: by the acceleration."""

    kind: MaskKind = "random"
    acceleration: float = 4.0
    center: float | None = None

    def lines(self, width: int) -> int:
        """How many of the center are always measured."""
        return calibration_width(width, self.acceleration) if self.center is None else round(self.center * width)


class ScanBatches:
    """Passes over slices. A batch has slices of one size and number of coils only.

    In training (`shuffle`) an epoch goes over all of them `passes` times, with other masks each time, and other versions of slices
    that vary every `REUSED` times; a batch that is not full is left out unless its size has no other. In validation a slice has the same mask every time.
    `rows` gives a band of so many neighboring rows to learn from instead of the whole slice: since whole lines are left out, what an
    accelerated scan confuses lies within a row, and a band is a scan of a smaller field of view.
    """

    def __init__(
        self,
        slices: Slices,
        sampling: Sampling,
        *,
        batch: int,
        shuffle: bool = False,
        passes: int = 1,
        rows: int | None = None,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if not len(slices):
            raise VitrailError("not one slice to read")
        if not 0 <= rank < world:
            raise VitrailError(f"rank must be from 0 to world - 1, got rank {rank} of {world}")
        if shuffle and batch % world:
            raise VitrailError(f"a batch of {batch} cannot be shared equally among {world} processes")
        self.slices, self.sampling, self.batch, self.shuffle, self.passes = slices, sampling, batch, shuffle, passes
        self.seed, self.rank, self.world = seed, rank, world
        self.varied = slices if shuffle and isinstance(slices, LazySlices) and slices.varies else None
        self.rows = rows
        self.names = [""] * len(slices)  # of slices that do not vary
        first = self.complete(0) if self.varied is None else self.draw(0, 0)
        room = ROOM // sum(part.nbytes for part in first)
        # Reading a slice may take longer than learning from it: its coils are simulated, or their maps estimated.
        self.kept, self.drawn = lru_cache(room)(self.complete), lru_cache(room)(self.draw)
        shapes: dict[tuple[int, ...], list[int]] = {}
        for index in range(len(slices)):
            shapes.setdefault(tuple(self.version(index, number=0)[0].shape), []).append(index)
        self.groups = [np.array(members) for members in shapes.values()]

    def __len__(self) -> int:
        return self.passes * sum(self.count(group) for group in self.groups)

    def count(self, group: Int[np.ndarray, "n"]) -> int:
        return max(1, len(group) // self.batch) if self.shuffle else -(-len(group) // self.batch)

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[ScanBatch]:
        asked = ((number, share) for number, whole in self.order(epoch)[start:] if len(share := whole[self.rank :: self.world]))
        return ahead(lambda pair: self.read(pair[1], epoch=pair[0]), asked)

    def order(self, epoch: int) -> list[tuple[int, Int[np.ndarray, "b"]]]:
        """Every batch of an epoch: which pass over the slices it belongs to, counted from the first epoch, and which slices it has."""
        found: list[tuple[int, np.ndarray]] = []
        for number in range(epoch * self.passes, (epoch + 1) * self.passes):
            generator = np.random.Generator(np.random.PCG64([self.seed, number]))
            some = []
            for group in self.groups:
                members = generator.permutation(group) if self.shuffle else group
                some += [members[i * self.batch : (i + 1) * self.batch] for i in range(self.count(group))]
            turns = generator.permutation(len(some)) if self.shuffle else range(len(some))
            found += [(number, some[turn]) for turn in turns]
        return found

    def read(self, indices: Int[np.ndarray, "b"], *, epoch: int) -> ScanBatch:
        whole = [self.version(int(index), number=epoch) for index in indices]
        kspace, maps, target = (torch.stack(parts) for parts in zip(*whole, strict=True))
        masks = [self.mask(int(index), kspace.shape[-1], epoch=epoch) for index in indices]
        mask = torch.from_numpy(np.stack(masks))[:, None]  # b 1 w
        return ScanBatch(kspace * mask[:, None], mask, maps, target, torch.from_numpy(indices.astype(np.int64)))

    def version(self, index: int, *, number: int) -> Parts:
        """A slice, or the one of its versions that has this number; of that a band, if bands are asked for."""
        if self.varied is not None:
            return self.drawn(index, number // REUSED)
        kspace, maps, target = self.kept(index)
        if self.rows is None or self.rows >= target.shape[0]:
            return kspace, maps, target
        draw = float(uniforms(self.seed, number, np.array([index]), count=1)[0, 0])
        top = int(draw * (target.shape[0] - self.rows + 1))
        band = slice(top, top + self.rows)
        return to_kspace(to_image(kspace)[:, band]), maps[:, band], target[band]

    def draw(self, index: int, number: int) -> Parts:
        assert self.varied is not None
        return self.parts(self.varied.draw(index, number=number, rows=self.rows))

    def mask(self, index: int, width: int, *, epoch: int) -> Bool[np.ndarray, "w"]:
        sampling = self.sampling
        return make_mask(
            sampling.kind,
            width,
            acceleration=sampling.acceleration,
            center=sampling.lines(width),
            seed=self.seed,
            epoch=epoch if self.shuffle else 0,
            index=index,
        )

    def complete(self, index: int) -> Parts:
        one = self.slices[index]
        self.names[index] = one.name
        return self.parts(one)

    def parts(self, one: Slice) -> Parts:
        """A slice's k-space, its maps, given or estimated from the lines that every mask has, and its picture: the one that is known,
        if it has a phase and the size of the k-space, or else that of all lines."""
        maps = one.maps if one.maps is not None else estimate_maps(one.kspace, self.sampling.lines(one.size[1]))
        known = one.target if one.target is not None and one.target.shape == one.size and np.iscomplexobj(one.target) else None
        if known is None and missing_lines(one.kspace).any():
            raise VitrailError(f"{one.name}: lines are missing, so that there is no picture of all lines to compare with")
        target = combine(one.kspace, maps) if known is None else known.astype(np.complex64)
        return torch.from_numpy(one.kspace), torch.from_numpy(maps), torch.from_numpy(target)
