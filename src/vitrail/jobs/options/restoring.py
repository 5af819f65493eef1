"""Options of bringing pictures back: from damage, and from few lines of k-space."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from vitrail.jobs.options.values import Auto, whole

RESTORATION = Group("Restoration", help="With --task restore.", sort_key=5)
KSPACE = Group("Accelerated MRI", help="With --task mri.", sort_key=6)


@dataclass(frozen=True, kw_only=True)
class RestorationOptions:
    """Of undoing damage."""

    degrade: Annotated[
        str | None,
        Parameter(
            group=RESTORATION,
            help="What to undo: srN (N of 2, 3, 4, 8 times smaller), noiseS (of S levels of 255), jpegQ (of quality Q), realN (blur, "
            "noise, JPEG and N times smaller).",
        ),
    ] = None
    patch_size: Annotated[
        int | Auto, Parameter(converter=whole, group=RESTORATION, help="Side of the patches that the model is given.")
    ] = "auto"
    patches: Annotated[
        int | Auto,
        Parameter(converter=whole, group=RESTORATION, help="Of each picture, an epoch; auto: some thousands in all."),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class KSpaceOptions:
    """Of accelerated MRI."""

    acceleration: Annotated[float, Parameter(group=KSPACE, help="One line of k-space in so many is measured.")] = 4.0
    mask: Annotated[Literal["random", "equispaced", "density"], Parameter(group=KSPACE, help="Which lines they are.")] = (
        "random"
    )
    center: Annotated[
        float | Auto,
        Parameter(group=KSPACE, help="Share of the lines, in the middle, that is always measured; auto: 0.32 of them."),
    ] = "auto"
    consistency: Annotated[
        Literal["none", "hard", "sense"],
        Parameter(group=KSPACE, help="Keep the measured lines (hard), or fit the picture to those of all coils (sense)."),
    ] = "none"
    objective: Annotated[
        Literal["supervised", "equivariant"],
        Parameter(group=KSPACE, help="Learn from scans of all lines, or from accelerated ones alone (equivariant imaging)."),
    ] = "supervised"
    slices: Annotated[
        int | None, Parameter(converter=whole, group=KSPACE, help="Learn from so many slices, evenly chosen; by default all.")
    ] = None
    rows: Annotated[
        int | None,
        Parameter(converter=whole, group=KSPACE, help="Learn from bands of so many rows; by default from whole slices."),
    ] = None
    scalp: Annotated[
        bool, Parameter(group=KSPACE, help="Simulate a skull and a scalp around a brain that comes without.", negative="")
    ] = False
