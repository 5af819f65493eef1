"""Blocks of options that change training images at random: where things are, and their colors. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from cyclopts import Parameter

from vitrail.tasks.options import AUGMENTATION, SHARE, Auto, Block, Range, integer


@dataclass(frozen=True, kw_only=True)
class FlipOptions(Block):
    """Mirror images."""

    flip: Annotated[
        bool | None,
        Parameter(group=AUGMENTATION, help="Mirror left and right; by default color images only.", negative="--no-flip"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RotateZoomOptions(FlipOptions):
    """Move images, but not away from their place."""

    rotate: Annotated[float | Auto, Range(ge=0), Parameter(group=AUGMENTATION, help="Rotate by up to so many degrees.")] = (
        "auto"
    )
    zoom: Annotated[float | Auto, SHARE, Parameter(group=AUGMENTATION, help="Zoom by up to this factor more or less.")] = "auto"


@dataclass(frozen=True, kw_only=True)
class MovementOptions(RotateZoomOptions):
    """Move images."""

    shift: Annotated[float | Auto, SHARE, Parameter(group=AUGMENTATION, help="Move by up to this share of a side.")] = "auto"


@dataclass(frozen=True, kw_only=True)
class AugmentationOptions(MovementOptions):
    """Move images, and change their colors."""

    cutout: Annotated[float | Auto, SHARE, Parameter(group=AUGMENTATION, help="Side of a square to hide, as a share.")] = "auto"
    operations: Annotated[
        int | Auto, Range(ge=0), integer("RandAugment: how many changes an image gets.", group=AUGMENTATION)
    ] = "auto"
    magnitude: Annotated[
        float | Auto, Range(ge=0, le=10), Parameter(group=AUGMENTATION, help="RandAugment: how strong they are.")
    ] = "auto"
    erase: Annotated[
        float | Auto, Range(ge=0, le=1), Parameter(group=AUGMENTATION, help="Share of images with a rectangle erased.")
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class JitterOptions(Block):
    """Change colors."""

    renamed: ClassVar[Mapping[str, str]] = {"jitter": "color_jitter"}

    color_jitter: Annotated[
        float | Auto,
        SHARE,
        Parameter(group=AUGMENTATION, help="Change brightness, contrast and saturation by up to this share."),
    ] = "auto"
