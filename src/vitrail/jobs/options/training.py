"""The options of `vitrail train` and `vitrail pretrain`."""

from dataclasses import dataclass

from cyclopts import Parameter

from vitrail.jobs.options.common import CommonOptions
from vitrail.jobs.options.dense import DetectionOptions, SegmentationOptions, VolumeOptions
from vitrail.jobs.options.few_labels import DistillationOptions, PretrainingOptions
from vitrail.jobs.options.recipe import RecipeOptions
from vitrail.jobs.options.restoring import KSpaceOptions, RestorationOptions
from vitrail.jobs.options.sequences import PixelOptions, TextOptions


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
class TrainOptions(  # the last one's come first: the order of help and of config.yaml
    PretrainingOptions,
    DistillationOptions,
    VolumeOptions,
    DetectionOptions,
    KSpaceOptions,
    SegmentationOptions,
    RestorationOptions,
    PixelOptions,
    TextOptions,
    RecipeOptions,
    CommonOptions,
):
    """What `vitrail train` and `vt.train` take. `auto` is replaced by what it chose, and config.yaml says by what."""
