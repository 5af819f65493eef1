"""Slices of scans in batches: to learn from, with new masks each time, and to score, with the same.

b batch, c coils, h rows, w columns
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Complex, Int
from torch import Tensor

from vitrail.data.examples import spread
from vitrail.data.loader import Loader, Samples
from vitrail.data.mri.masks import Sampling, make_mask
from vitrail.data.mri.measuring import missing_lines
from vitrail.data.mri.sensitivities import estimate_maps
from vitrail.data.mri.slices import LazySlices, Slice, Slices, SomeSlices, combine
from vitrail.data.order import COPY, BucketOrder, check_share, fixed_bucket
from vitrail.data.randomness import uniforms
from vitrail.errors import VitrailError
from vitrail.learn.training.world import World
from vitrail.nn.functional.fourier import to_image, to_kspace
from vitrail.tasks.mri.options import Options

SAME_MASKS = 0  # seed of the masks that validate and test: the same for every run, so that runs can be compared
SCORED = 4  # slices at a time, at most: what all coils of one need is much
STEPS = 24  # an epoch has at least so many, going over the slices several times, each time with other masks
REUSED = 4  # passes over one version of a slice, with other masks: simulating a scan may take longer than learning from it
ROOM = 2**30  # bytes of slices that are cached for the next epoch, at most
Parts = tuple[Complex[Tensor, "c h w"], Complex[Tensor, "c h w"], Complex[Tensor, "h w"]]  # k-space, maps, target


class ScanBatch(NamedTuple):
    """An accelerated scan of some slices and what a scan of all lines would give; `indices` are the slices' numbers."""

    kspace: Complex[Tensor, "b c h w"]  # zero where nothing was measured
    mask: Bool[Tensor, "b 1 w"]
    maps: Complex[Tensor, "b c h w"]
    target: Complex[Tensor, "b h w"]
    indices: Int[Tensor, "b"]


class ScanSource(Samples[Parts, ScanBatch]):
    """Slices, each accelerated by a mask that depends on (seed, pass, slice). Copy p of a slice (see `data.order.COPY`) is that of pass
    p of an epoch.

    In training an epoch goes over all of them `passes` times, with other masks each time, and other versions of slices that vary every
    `REUSED` times. In validation a slice has the same mask every time. `rows` gives a band of so many neighboring rows to learn from
    instead of the whole slice: since whole lines are left out, what an accelerated scan confuses lies within a row, and a band is a
    scan of a smaller field of view.
    """

    def __init__(
        self,
        slices: Slices,
        sampling: Sampling,
        *,
        training: bool = False,
        passes: int = 1,
        rows: int | None = None,
        seed: int = 0,
    ) -> None:
        if not len(slices):
            raise VitrailError("not one slice to read")
        self.slices, self.sampling, self.training, self.passes = slices, sampling, training, passes
        self.seed, self.rows = seed, rows
        self.varied = slices if training and isinstance(slices, LazySlices) and slices.varies else None
        self.names = [""] * len(slices)  # of slices that do not vary
        first = self.complete(0) if self.varied is None else self.draw(0, 0)
        room = ROOM // sum(part.nbytes for part in first)
        # Reading a slice may take longer than learning from it: its coils are simulated, or their maps estimated.
        self.kept, self.drawn = lru_cache(room)(self.complete), lru_cache(room)(self.draw)

    def shapes(self) -> list[Int[np.ndarray, "n"]]:
        """The slices of each size and number of coils."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for index in range(len(self.slices)):
            groups.setdefault(tuple(self.version(index, number=0)[0].shape), []).append(index)
        return [np.array(members) for members in groups.values()]

    def sample(self, epoch: int, index: int) -> Parts:
        return self.version(index % COPY, number=epoch * self.passes + index // COPY)

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[Parts]) -> ScanBatch:
        kspace, maps, target = (torch.stack(parts) for parts in zip(*samples, strict=True))
        masks = [self.mask(epoch, index, kspace.shape[-1]) for index in indices]
        mask = torch.from_numpy(np.stack(masks))[:, None]  # b 1 w
        return ScanBatch(kspace * mask[:, None], mask, maps, target, torch.tensor([index % COPY for index in indices]))

    def mask(self, epoch: int, index: int, width: int) -> Bool[np.ndarray, "w"]:
        return make_mask(
            self.sampling.kind,
            width,
            acceleration=self.sampling.acceleration,
            center=self.sampling.lines(width),
            seed=self.seed,
            epoch=epoch * self.passes + index // COPY if self.training else 0,
            index=index % COPY,
        )

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

    def complete(self, index: int) -> Parts:
        one = self.slices[index]
        self.names[index] = one.name
        return self.parts(one)

    def parts(self, one: Slice) -> Parts:
        """A slice's k-space, its maps, given or estimated from the lines that every mask has, and its image: the one that is known,
        if it has a phase and the size of the k-space, or else that of all lines."""
        maps = one.maps if one.maps is not None else estimate_maps(one.kspace, self.sampling.lines(one.size[1]))
        known = one.target if one.target is not None and one.target.shape == one.size and np.iscomplexobj(one.target) else None
        if known is None and missing_lines(one.kspace).any():
            raise VitrailError(f"{one.name}: lines are missing, so that there is no image of all lines to compare with")
        target = combine(one.kspace, maps) if known is None else known.astype(np.complex64)
        return torch.from_numpy(one.kspace), torch.from_numpy(maps), torch.from_numpy(target)


def sampling_of(options: Options) -> Sampling:
    center = None if options.center == "auto" else float(options.center)
    return Sampling(kind=options.mask, acceleration=float(options.acceleration), center=center)


def describe_sampling(sampling: Sampling) -> str:
    middle = "" if sampling.center is None else f", {sampling.center:.1%} of the lines in the middle always"
    return f"{sampling.acceleration:g}x accelerated, {sampling.kind} lines{middle}"


def choose_slices(slices: Slices, wanted: int | None) -> Slices:
    """So many of them, evenly chosen; by default all."""
    return slices if wanted is None else SomeSlices(slices, np.array(spread(len(slices), wanted)))


def scan_loader(
    slices: Slices, sampling: Sampling, *, batch: int, shuffle: bool = False, passes: int = 1, rows: int | None = None,
    seed: int = 0, rank: int = 0, world: int = 1,
) -> Loader[ScanBatch]:  # fmt: skip
    """A batch has slices of one size and number of coils only; shuffled, one that is not full is left out unless its size has no other."""
    if shuffle:
        check_share(batch, world)
    source = ScanSource(slices, sampling, training=shuffle, passes=passes, rows=rows, seed=seed)
    buckets = [fixed_bucket(members, batch, full=shuffle) for members in source.shapes()]
    return Loader(source, BucketOrder(buckets, shuffle=shuffle, seed=seed, passes=passes, rank=rank, world=world))


def training_loader(options: Options, slices: Slices, world: World) -> Loader[ScanBatch]:
    """Shuffled, with new masks each time."""
    assert options.batch_size != "auto"
    height = slices[0].size[0]
    share = 1.0 if options.rows is None else min(options.rows, height) / height  # how much of a slice a band is
    return scan_loader(
        slices,
        sampling_of(options),
        batch=options.batch_size,
        shuffle=True,
        passes=passes_of(len(slices), options.batch_size, share=share),
        rows=options.rows,
        seed=options.seed,
        rank=world.rank,
        world=world.size,
    )


def passes_of(slices: int, batch: int, *, share: float = 1.0) -> int:
    """How often an epoch goes over so many slices, of each of which it sees a share: it has at least `STEPS` / share steps."""
    return max(1, -(-int(STEPS / share) // max(1, slices // batch)))


def scored_loader(slices: Slices, sampling: Sampling, world: World | None = None, *, batch: int = SCORED) -> Loader[ScanBatch]:
    world = world or World()
    return scan_loader(slices, sampling, batch=batch, seed=SAME_MASKS, rank=world.rank, world=world.size)
