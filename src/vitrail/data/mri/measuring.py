"""What an accelerated scan of a slice would have been: some of its lines, and what they are to be turned into.

c coils, h rows, w columns
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Complex64

from vitrail.data.mri.masks import MaskKind, calibration_width, make_mask
from vitrail.data.mri.sensitivities import estimate_maps, normalize_maps
from vitrail.data.mri.slices import Slice, Slices, brightness, combine


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """The measured lines of a slice, scaled so that their zero-filled image has brightness 1."""

    kspace: Complex64[np.ndarray, "c h w"]  # zero where nothing was measured
    mask: Bool[np.ndarray, "w"]
    maps: Complex64[np.ndarray, "c h w"]
    target: Complex64[np.ndarray, "h w"] | None  # of the same scale; None where the scan itself left lines out
    scale: float  # multiply by it for the units of the slice
    name: str


def measure(one: Slice, mask: Bool[np.ndarray, "w"], *, calibration: int) -> Sample:
    """The slice as a scan of the masked lines alone would have it.

    Sensitivities that the slice does not bring along are estimated from the calibration lines, never from the others. The
    target is the slice's own where that is a complex image of the whole, otherwise what all lines give with these maps.
    Maps are brought to sum |S_i|² = 1, and the target to what they then have to explain.
    """
    mask = mask & ~missing_lines(one.kspace)
    measured = np.where(mask, one.kspace, 0)
    maps, size = normalize_maps(estimate_maps(measured, calibration) if one.maps is None else one.maps)
    target = None
    if one.target is not None and np.iscomplexobj(one.target) and one.target.shape == one.size:
        target = one.target * size
    elif not missing_lines(one.kspace).any():
        target = combine(one.kspace, maps)
    scale = brightness(combine(measured, maps, mask))
    down = np.float32(1 / scale)
    return Sample(
        kspace=measured * down,
        mask=mask,
        maps=maps,
        target=None if target is None else target * down,
        scale=scale,
        name=one.name,
    )


def missing_lines(kspace: Complex64[np.ndarray, "c h w"]) -> Bool[np.ndarray, "w"]:
    """Empty columns between others: lines that the scan left out. Empty ones at the edges are padding, which is known."""
    filled = np.flatnonzero(kspace.any(axis=(0, 1)))
    missing = np.zeros(kspace.shape[2], dtype=bool)
    if len(filled):
        missing[filled[0] : filled[-1]] = True
    missing[filled] = False
    return missing


@dataclass(frozen=True, kw_only=True)
class MeasuredSlices:
    """Slices with masks that are a function of (seed, epoch, index): in training another one each epoch."""

    slices: Slices
    kind: MaskKind = "random"
    acceleration: float | int = 4
    center: int | None = None  # calibration lines; None: 0.32 of those measured
    seed: int = 0

    def __len__(self) -> int:
        return len(self.slices)

    def __getitem__(self, index: int) -> Sample:
        return self.sample(index)

    def sample(self, index: int, *, epoch: int = 0) -> Sample:
        one = self.slices[index]
        width = one.size[1]
        center = calibration_width(width, self.acceleration) if self.center is None else self.center
        mask = make_mask(
            self.kind,
            width,
            acceleration=self.acceleration,
            center=center,
            seed=self.seed,
            epoch=epoch,
            index=index % len(self),
        )
        return measure(one, mask, calibration=center)
