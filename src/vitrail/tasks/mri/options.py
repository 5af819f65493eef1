"""Options of reconstructing accelerated MRI scans. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.errors import VitrailError
from vitrail.tasks.blocks import AttentionOptions, AveragingOptions, BatchOptions, OptimizerOptions, SizeOptions
from vitrail.tasks.options import COUNT, HOW_TO_LEARN, IMAGES, TASK, Auto, CommonOptions, Range, integer, several, switch


@dataclass(frozen=True, kw_only=True)
class Options(AveragingOptions, OptimizerOptions, SizeOptions, AttentionOptions, BatchOptions, CommonOptions):
    """What `vitrail train --task mri` takes."""

    retired: ClassVar[Mapping[str, Any]] = {
        "shard": False, "position": None, "position_where": "auto", "layer_decay": 1.0, "smoothing": 0.0,
    }  # fmt: skip
    of_weights: ClassVar[tuple[str, ...]] = ("model", "attention", "attention_options")  # k-space has any size

    task: Annotated[Literal["mri"], Parameter(help="What to learn.")] = "mri"
    recipe: Annotated[Literal["auto", "tiny", "small", "finetune"], HOW_TO_LEARN] = "auto"
    batch_size: Annotated[int | Auto, COUNT, integer("Slices per step.", group=IMAGES)] = "auto"
    image_size: Annotated[
        tuple[int, ...] | None,
        COUNT,
        several(
            "N, or H W, of simulated slices; measured ones are cropped to it. By default 224, or as measured.", group=IMAGES
        ),
    ] = None
    acceleration: Annotated[float, Range(ge=1), Parameter(group=TASK, help="One line of k-space in so many is measured.")] = 4.0
    mask: Annotated[Literal["random", "equispaced", "density"], Parameter(group=TASK, help="Which lines they are.")] = "random"
    center: Annotated[
        float | Auto,
        Range(gt=0, le=1),
        Parameter(group=TASK, help="Share of the lines, in the middle, that is always measured; auto: 0.32 of those measured."),
    ] = "auto"
    consistency: Annotated[
        Literal["none", "hard", "sense"],
        Parameter(group=TASK, help="Keep the measured lines (hard), or fit the image to those of all coils (sense)."),
    ] = "none"
    objective: Annotated[
        Literal["supervised", "equivariant"],
        Parameter(group=TASK, help="Learn from scans of all lines, or from accelerated ones alone (equivariant imaging)."),
    ] = "supervised"
    slices: Annotated[int | None, COUNT, integer("Learn from so many slices, evenly chosen; by default all.", group=TASK)] = (
        None
    )
    rows: Annotated[
        int | None, COUNT, integer("Learn from bands of so many rows; by default from whole slices.", group=TASK)
    ] = None
    scalp: Annotated[bool, switch("Simulate a skull and a scalp around a brain that comes without.", group=TASK)] = False

    def check(self) -> None:
        super().check()
        if self.center != "auto" and not 0 < self.center * self.acceleration <= 1:
            raise VitrailError(
                f"--center must be above 0 and at most what is measured, 1 / {self.acceleration:g} of the lines, got {self.center:g}"
            )
        if self.rows is not None and self.objective == "equivariant":
            raise VitrailError(
                "--objective equivariant turns whole slices around: --rows, which cuts bands out of them, does not go with it"
            )


# How to learn from so many slices. Each value can be overridden by its option.
BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "batch_size": 4, "weight_decay": 0.0, "warmup": 0.05, "schedule": "cosine", "clip_grad": 1.0, "optimizer": "adamw",
        "ema": 0.0, "sam": 0.0,
    }
)  # fmt: skip
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": BASE | {"epochs": 40, "lr": 1e-3},
        "small": BASE | {"epochs": 10, "lr": 1e-3},
        "finetune": BASE | {"epochs": 20, "lr": 5e-4},
    }
)
# What a recipe's learning rate is multiplied by for each network. A new one is the identity, and only few of their layers are normalized.
RATES: Mapping[str, float] = MappingProxyType({"vit_restorer": 4.0, "unet": 2.0, "swinir": 1.0})
FEW = 1000  # slices: up to here the recipe is "tiny"
