"""Blocks of options of methods that learn without labels. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from cyclopts import Parameter

from vitrail.tasks.augmentation_options import AugmentationOptions, FlipOptions
from vitrail.tasks.blocks import (
    AveragingOptions,
    CacheOptions,
    DropPathOptions,
    ImageOptions,
    LayerDecayOptions,
    OptimizerOptions,
    PartOptions,
)
from vitrail.tasks.options import TASK, Auto, Range, integer


@dataclass(frozen=True, kw_only=True)
class PretrainingOptions(OptimizerOptions, CacheOptions, ImageOptions):
    """Images without labels, of all methods of `vitrail pretrain`."""

    retired: ClassVar[Mapping[str, Any]] = {
        "balance": "none", "smoothing": 0.0, "mixup": 0.0, "cutmix": 0.0, "token_keep": 1.0, "progressive": 1.0, "shard": False,
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MaskOptions(AugmentationOptions, AveragingOptions, LayerDecayOptions, DropPathOptions, PartOptions, PretrainingOptions):
    """Patches that the model does not see."""

    retired: ClassVar[Mapping[str, Any]] = {"repeats": 1}
    renamed: ClassVar[Mapping[str, str]] = {"hide": "mask_ratio"}

    mask_ratio: Annotated[
        float | Auto,
        Range(gt=0, lt=1),
        Parameter(group=TASK, help="Share of the patches that the model does not see; auto: as published."),
    ] = "auto"


MASKED: MappingProxyType[str, Any] = MappingProxyType(
    {
        "weight_decay": 0.05, "warmup": 0.05, "schedule": "cosine", "clip_grad": 1.0, "drop_path": 0.0, "shift": 0.1,
        "rotate": 0.0, "zoom": 0.1, "cutout": 0.0, "operations": 0, "magnitude": 9.0, "erase": 0.0, "optimizer": "adamw",
        "layer_decay": 1.0, "ema": 0.0, "sam": 0.0,
    }  # what the recipes of all these methods share
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ViewOptions(FlipOptions, LayerDecayOptions, DropPathOptions, PartOptions, PretrainingOptions):
    """Crops of an image that a student and a teacher, an average of the student, compare. They are augmented in ways of their own."""

    retired: ClassVar[Mapping[str, Any]] = {
        "shift": 0.0, "rotate": 0.0, "zoom": 0.0, "cutout": 0.0, "operations": 0, "magnitude": 9.0, "erase": 0.0, "ema": 0.0,
        "sam": 0.0, "repeats": 1,
    }  # fmt: skip

    momentum: Annotated[
        float | Auto,
        Range(ge=0, le=1),
        Parameter(group=TASK, help="Of the teacher's average of the student, at the beginning."),
    ] = "auto"
    temperature: Annotated[float | Auto, Range(gt=0), Parameter(group=TASK, help="Of the student's softmax.")] = "auto"
    knn_every: Annotated[
        int | Auto,
        Range(ge=0),
        integer("Measure the accuracy of nearest neighbors' labels each so many epochs; 0: never.", group=TASK),
    ] = "auto"
