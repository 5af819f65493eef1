"""Options of semantic segmentation. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.tasks.augmentation_options import JitterOptions, RotateZoomOptions
from vitrail.tasks.blocks import (
    AveragingOptions,
    DropPathOptions,
    ImageOptions,
    LayerDecayOptions,
    OptimizerOptions,
    PartOptions,
    SmoothingOptions,
    ValSplitOptions,
)
from vitrail.tasks.options import (
    AUGMENTATION,
    COUNT,
    HOW_TO_LEARN,
    IMAGES,
    TASK,
    CommonOptions,
    integer,
    several,
    switch,
    whole,
)
from vitrail.tasks.verb_options import EnginePredictOptions, ProtocolEvalOptions
from vitrail.tasks.verb_options import ExplainOptions as SharedExplainOptions
from vitrail.tasks.weights_options import FreezeOptions, PretrainedOptions


@dataclass(frozen=True, kw_only=True)
class Options(
    JitterOptions,
    RotateZoomOptions,
    AveragingOptions,
    LayerDecayOptions,
    DropPathOptions,
    SmoothingOptions,
    OptimizerOptions,
    FreezeOptions,
    ValSplitOptions,
    PartOptions,
    ImageOptions,
    PretrainedOptions,
    CommonOptions,
):
    """What `vitrail train --task segment` takes."""

    retired: ClassVar[Mapping[str, Any]] = {"shard": False}
    of_weights: ClassVar[tuple[str, ...]] = ("model", "position", "position_where", "attention", "attention_options")

    task: Annotated[Literal["segment"], Parameter(help="What to learn.")] = "segment"
    recipe: Annotated[Literal["auto", "tiny", "small", "medium", "finetune", "plain"], HOW_TO_LEARN] = "auto"
    head: Annotated[
        str | None,
        Parameter(
            group=TASK,
            help="What makes masks of the maps of --model, an encoder: setr_naive, setr_pup, setr_mla, linear, mask, upernet, trans2seg.",
        ),
    ] = None
    loss: Annotated[
        Literal["auto", "ce", "dice", "focal", "ce+dice"], Parameter(group=TASK, help="Cross-entropy, Dice, focal; auto: ce.")
    ] = "auto"
    class_weights: Annotated[
        Literal["auto", "none", "balanced", "softened"],
        Parameter(
            group=TASK,
            help="balanced: pixels of rare classes count more, by median frequency; softened: by its root; auto: softened where one class "
            "has ten times the pixels of another.",
        ),
    ] = "auto"
    ignore_index: Annotated[
        tuple[int, ...] | None,
        several(
            "Numbers in masks that belong to no class; by default those that classes.txt calls void, ignore or unlabelled. 255 always.",
            group=TASK,
        ),
    ] = None
    image_size: Annotated[
        tuple[int, ...] | None,
        COUNT,
        several("N, or H W, of crops in pixels; by default that of the images, 224 at most where they differ.", group=IMAGES),
    ] = None
    flip: Annotated[
        bool | None,
        Parameter(
            group=AUGMENTATION, help="Mirror left and right; on by default, but with --recipe plain.", negative="--no-flip"
        ),
    ] = None

    def check(self) -> None:
        super().check()
        check_ignored(self.ignore_index)

    def normalize(self) -> Any:
        found = super().normalize()
        return found if found.ignore_index is None else replace(found, ignore_index=tuple(sorted(set(found.ignore_index))))


def check_ignored(numbers: tuple[int, ...] | None) -> None:
    from vitrail.data.formats import numbering

    numbering.check_ignored(numbers or ())


@dataclass(frozen=True, kw_only=True)
class EvalOptions(ProtocolEvalOptions):
    """What `vitrail eval` takes beside a segmenter."""

    window: Annotated[
        tuple[int, int] | None,
        Parameter(
            converter=whole, negative="", help="H W of windows that slide over larger images; by default images are seen whole."
        ),
    ] = None
    flip_test: Annotated[bool, switch("Average with the prediction for the mirror image.")] = False
    scales: Annotated[
        tuple[float, ...] | None,
        Parameter(consume_multiple=True, negative="", help="Average predictions at several sizes, such as 0.75 1 1.25."),
    ] = None
    ignore_index: Annotated[
        tuple[int, ...] | None, several("Numbers in masks that belong to no class; by default the run's.")
    ] = None

    def check(self) -> None:
        super().check()
        check_ignored(self.ignore_index)


@dataclass(frozen=True, kw_only=True)
class PredictOptions(EnginePredictOptions):
    """What `vitrail predict` takes beside a segmenter and images."""

    top_k: Annotated[int, COUNT, integer("How many classes to name for each image, the largest first.")] = 3
    out: Annotated[
        str | None, Parameter(help="A folder for NAME_mask.png, with the numbers of classes, and NAME_overlay.png.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(SharedExplainOptions):
    """What `vitrail explain` takes beside a segmenter and images."""

    target: Annotated[str | None, Parameter(help="The class to explain; by default the three largest of each image.")] = None
    method: Annotated[
        str,
        Parameter(
            help="auto, occlusion or gradient: what the pixels of a class rest on; auto: occlusion where it takes few steps."
        ),
    ] = "auto"
    query: Annotated[
        tuple[int, int] | None,
        Parameter(
            converter=whole,
            negative="",
            help="ROW COL of a patch whose attention is shown; by default where the class is likeliest.",
        ),
    ] = None
    layer: Annotated[
        int | None,
        integer("Show the heads of this layer of the encoder, from 0, or from -1 backwards; by default the last one."),
    ] = None
    head: Annotated[int | None, integer("Show this head alone; by default each of them.")] = None


BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "weight_decay": 0.05, "warmup": 0.05, "schedule": "cosine", "label_smoothing": 0.0, "clip_grad": 1.0, "drop_path": 0.0,
        "rotate": 0.0, "zoom": 0.0, "optimizer": "adamw", "layer_decay": 1.0, "ema": 0.0, "sam": 0.0,
    }
)  # fmt: skip
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        # Up to a thousand images, as CamVid has: many passes, wide changes of scale. docs/log.md has the trials.
        "tiny": BASE | {
            "epochs": 60, "batch_size": 8, "lr": 2e-3, "zoom": 0.6, "drop_path": 0.1, "ema": 0.998, "optimizer": "muon",
        },
        "small": BASE | {
            "epochs": 12, "batch_size": 8, "lr": 2e-3, "zoom": 0.4, "drop_path": 0.05, "ema": 0.998, "optimizer": "muon",
        },
        "medium": BASE | {"epochs": 12, "batch_size": 32, "lr": 1e-3, "zoom": 0.5, "drop_path": 0.1, "ema": 0.999},
        # From trained weights: gentle with the lower blocks.
        "finetune": BASE | {
            "epochs": 40, "batch_size": 8, "lr": 5e-4, "warmup": 0.1, "zoom": 0.5, "drop_path": 0.1, "layer_decay": 0.8,
            "ema": 0.998,
        },
        # Crops alone: the baseline to compare with.
        "plain": BASE | {"epochs": 40, "batch_size": 16, "lr": 1e-3},
    }
)  # fmt: skip
