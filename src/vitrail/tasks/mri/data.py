"""Slices of scans in batches: to learn from, with new masks each time, and to score, with the same."""

import numpy as np

from vitrail.data.examples import spread
from vitrail.data.mri.batches import Sampling, ScanBatches
from vitrail.data.mri.slices import Slices, SomeSlices
from vitrail.learn.training.world import World
from vitrail.tasks.mri.options import Options

SAME_MASKS = 0  # seed of the masks that validate and test: the same for every run, so that runs can be compared
SCORED = 4  # slices at a time, at most: what all coils of one need is much
STEPS = 24  # an epoch has at least so many, going over the slices several times, each time with other masks


def sampling_of(options: Options) -> Sampling:
    center = None if options.center == "auto" else float(options.center)
    return Sampling(kind=options.mask, acceleration=float(options.acceleration), center=center)


def describe_sampling(sampling: Sampling) -> str:
    middle = "" if sampling.center is None else f", {sampling.center:.1%} of the lines in the middle always"
    return f"{sampling.acceleration:g}x accelerated, {sampling.kind} lines{middle}"


def choose_slices(slices: Slices, wanted: int | None) -> Slices:
    """So many of them, evenly chosen; by default all."""
    return slices if wanted is None else SomeSlices(slices, np.array(spread(len(slices), wanted)))


def training_batches(options: Options, slices: Slices, world: World) -> ScanBatches:
    """Shuffled, with new masks each time."""
    assert options.batch_size != "auto"
    height = slices[0].size[0]
    share = 1.0 if options.rows is None else min(options.rows, height) / height  # how much of a slice a band is
    return ScanBatches(
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


def scored_batches(slices: Slices, sampling: Sampling, world: World | None = None, *, batch: int = SCORED) -> ScanBatches:
    world = world or World()
    return ScanBatches(slices, sampling, batch=batch, seed=SAME_MASKS, rank=world.rank, world=world.size)
