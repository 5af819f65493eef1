"""Which lines of k-space an accelerated scan measures: all of a band in the center, and one in so many outside it.

w columns
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from vitrail.data.randomness import uniforms
from vitrail.errors import VitrailError, check_choice

MaskKind = Literal["random", "equispaced", "density"]
KINDS: tuple[MaskKind, ...] = get_args(MaskKind)
CENTER_SHARE = 0.32  # of the measured lines: 8 % of all lines at 4x, 4 % at 8x  [Zbontar+ 2018]
FALL = 3.0  # how fast the density of measured lines falls towards the edge of k-space


def make_mask(
    kind: MaskKind,
    width: int,
    *,
    acceleration: float | int,
    center: int | None = None,
    seed: int = 0,
    epoch: int = 0,
    index: int = 0,
) -> Bool[np.ndarray, "w"]:
    """True for the measured lines: width / acceleration of them in all, `center` of these around the zero frequency.

    random: the others are drawn alike. equispaced: they stand at equal distances from a random offset, which are adjusted so
    that the center's lines are not counted twice, as fastMRI's `EquispacedMaskFractionFunc` does. density: drawn with weight
    (1 - |k|)³ at the frequency k in [-1, 1]  [Lustig+ 2007].
    The same (seed, epoch, index) gives the same mask. `center` is by default 0.32 of the measured lines.
    """
    check_choice("mask", kind, KINDS)
    if width < 1:
        raise VitrailError(f"a mask needs at least 1 column, got {width}")
    if not 1 <= acceleration <= width:
        raise VitrailError(f"acceleration must lie between 1 and the {width} columns, got {acceleration:g}")
    wanted = round(width / acceleration)
    center = calibration_width(width, acceleration) if center is None else center
    if not 0 <= center <= wanted:
        raise VitrailError(f"center must be 0 to the {wanted} lines that {acceleration:g}x leaves of {width}, got {center}")
    mask = center_lines(width, center)
    draws = uniforms(seed, epoch, np.array([index]), count=width)[0]
    if kind == "equispaced":
        return mask | _equispaced(width, wanted, center, float(draws[0]))
    frequency = np.abs(np.arange(width) - width // 2) / (width // 2 + 1)
    weight = np.ones(width) if kind == "random" else (1 - frequency) ** FALL
    mask[_draw(np.where(mask, 0.0, weight), draws, wanted - center)] = True
    return mask


def calibration_width(width: int, acceleration: float | int) -> int:
    """How many lines in the center are measured where nobody says otherwise."""
    return max(round(CENTER_SHARE * width / acceleration), 1)


def center_lines(width: int, count: int) -> Bool[np.ndarray, "w"]:
    """True for `count` columns around the zero frequency at w // 2; the odd one out is to its left."""
    start = width // 2 - count // 2
    lines = np.arange(width)
    return (lines >= start) & (lines < start + count)


def _draw(weight: Float[np.ndarray, "w"], draws: Float[np.ndarray, "w"], count: int) -> np.ndarray:
    """`count` columns without putting back, each in proportion to its weight: the largest u^(1/weight)  [Efraimidis+ 2006]."""
    with np.errstate(divide="ignore"):
        keys = np.where(weight > 0, np.log(np.maximum(draws, 2.0**-60)) / weight, -np.inf)
    return np.argsort(-keys, kind="stable")[:count]


def _equispaced(width: int, wanted: int, center: int, draw: float) -> Bool[np.ndarray, "w"]:
    """Lines at distance (w - center) / (wanted - center): of those outside the center, as many as are still wanted."""
    mask = np.zeros(width, dtype=bool)
    if wanted > center:
        distance = (width - center) / (wanted - center)
        positions = np.arange(draw * distance, width, distance)
        mask[positions[positions < width].astype(np.int64)] = True
    return mask


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """Which lines are measured: see `make_mask`. `center` is a share of all lines; None: by the acceleration."""

    kind: MaskKind = "random"
    acceleration: float = 4.0
    center: float | None = None

    def lines(self, width: int) -> int:
        """How many of the center are always measured."""
        return calibration_width(width, self.acceleration) if self.center is None else round(self.center * width)
