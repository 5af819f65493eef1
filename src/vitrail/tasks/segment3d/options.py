"""Options of labelling the voxels of volumes. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.errors import VitrailError
from vitrail.tasks import verb_options as shared
from vitrail.tasks.augmentation_options import RotateZoomOptions
from vitrail.tasks.blocks import AttentionOptions, AveragingOptions, BatchOptions, OptimizerOptions, SmoothingOptions
from vitrail.tasks.options import (
    AUGMENTATION,
    COUNT,
    HOW_TO_LEARN,
    SHARE,
    TASK,
    Auto,
    CommonOptions,
    Range,
    integer,
    several,
    whole,
)


@dataclass(frozen=True, kw_only=True)
class Options(
    RotateZoomOptions, AveragingOptions, SmoothingOptions, OptimizerOptions, AttentionOptions, BatchOptions, CommonOptions
):
    """What `vitrail train --task segment3d` takes. x points to the patient's right, y to the front, z up."""

    renamed: ClassVar[Mapping[str, str]] = {"divide_axis": "split_axis"}
    retired: ClassVar[Mapping[str, Any]] = {
        "shard": False, "position": None, "position_where": "auto", "layer_decay": 1.0,
    }  # fmt: skip

    task: Annotated[Literal["segment3d"], Parameter(help="What to learn.")] = "segment3d"
    recipe: Annotated[Literal["auto", "tiny", "small", "finetune", "plain"], HOW_TO_LEARN] = "auto"
    batch_size: Annotated[int | Auto, COUNT, integer("Crops per step.", group=TASK)] = "auto"
    crop: Annotated[
        tuple[int, ...] | None,
        several("X Y Z, or N: voxels that the model is given at a time; by default the model's.", group=TASK),
    ] = None
    spacing: Annotated[
        tuple[float, ...] | None,
        Parameter(
            consume_multiple=True,
            negative="",
            group=TASK,
            help="X Y Z, or N: edges of a voxel in mm; by default those of each file.",
        ),
    ] = None
    window_level: Annotated[
        tuple[float, float] | None,
        Parameter(
            negative="",
            allow_leading_hyphen=True,
            group=TASK,
            help="LOW HIGH: intensities that become 0 and 1; by default nearly all that labelled voxels of train have.",
        ),
    ] = None
    foreground: Annotated[
        float, Range(ge=0, le=1), Parameter(group=TASK, help="Share of the crops that is drawn around a labelled voxel.")
    ] = 0.67
    split_axis: Annotated[
        Literal["x", "y", "z"] | None,
        Parameter(
            group=TASK,
            help="Split every volume along an axis into train, val and test; by default along z where there are only one or two.",
        ),
    ] = None
    keep_largest: Annotated[
        Literal["auto", "none", "all"],
        Parameter(
            group=TASK,
            help="Of which classes only the largest part in one piece is kept; auto: of those whose Dice on validation it raises.",
        ),
    ] = "auto"
    overlap: Annotated[
        float, SHARE, Parameter(group=TASK, help="Share of a window that the next one sees again where volumes are scored.")
    ] = 0.5
    flip: Annotated[
        bool | None,
        Parameter(
            group=AUGMENTATION,
            help="Mirror each axis, and rotate by quarters where sides are equal; by default not: left and right differ in a body.",
            negative="--no-flip",
        ),
    ] = None

    def check(self) -> None:
        super().check()
        for name in ("crop", "spacing"):
            given = getattr(self, name)
            if given is not None and (len(given) not in (1, 3) or min(given) <= 0):
                numbers = " ".join(f"{number:g}" for number in given)
                raise VitrailError(f"--{name} takes X Y Z, or one number for all, above 0; got {numbers}")
        if self.window_level is not None and not self.window_level[0] < self.window_level[1]:
            low, high = self.window_level
            raise VitrailError(f"--window-level takes LOW HIGH, the second above the first, got {low:g} {high:g}")

    def normalize(self) -> Any:
        found = super().normalize()
        return replace(found, crop=three(found.crop), spacing=three(found.spacing))


def three(given: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """X Y Z, of one number too."""
    return given if given is None or len(given) == 3 else given * 3


@dataclass(frozen=True, kw_only=True)
class PredictOptions(shared.PredictOptions):
    """What `vitrail predict` takes beside a model of volumes."""

    out: Annotated[str | None, Parameter(help="A folder for NAME_labels.nii.gz; by default each lies beside its scan.")] = None


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(shared.ExplainOptions):
    """What `vitrail explain` takes beside a model of volumes."""

    voxel: Annotated[
        tuple[int, int, int] | None,
        Parameter(
            converter=whole,
            negative="",
            help="X Y Z, from 0, to the right, front and up; by default the middle of the largest part.",
        ),
    ] = None
    target: Annotated[str | None, Parameter(help="The class whose largest part is looked at; by default any.")] = None
    layer: Annotated[
        int | None, integer("Show the heads of this layer, from 0, or from -1 backwards; by default of the last.")
    ] = None
    head: Annotated[int | None, integer("Show this head only, from 0; by default each of the layer's.")] = None


# How to learn from so many volumes. Each value can be overridden by its option.
BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "batch_size": 2, "weight_decay": 0.01, "warmup": 0.05, "schedule": "cosine", "label_smoothing": 0.0, "clip_grad": 1.0,
        "rotate": 15.0, "zoom": 0.15, "optimizer": "adamw", "ema": 0.0, "sam": 0.0,
    }
)  # fmt: skip
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": BASE | {"epochs": 20, "lr": 1e-3},
        "small": BASE | {"epochs": 100, "lr": 5e-4},
        "finetune": BASE | {"epochs": 10, "lr": 3e-4},
        # Crops as they are: the baseline to compare with.
        "plain": BASE | {"epochs": 20, "lr": 1e-3, "weight_decay": 0.0, "rotate": 0.0, "zoom": 0.0},
    }
)
FEW = 20  # volumes: up to here the recipe is "tiny"
