"""Options of object detection. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.errors import VitrailError
from vitrail.tasks.augmentation_options import JitterOptions, MovementOptions
from vitrail.tasks.blocks import (
    AveragingOptions,
    CacheOptions,
    ImageOptions,
    LayerDecayOptions,
    OptimizerOptions,
    PartOptions,
    ValSplitOptions,
)
from vitrail.tasks.options import (
    AUGMENTATION,
    COUNT,
    HOW_TO_LEARN,
    IMAGES,
    TASK,
    Auto,
    CommonOptions,
    Range,
    integer,
    several,
    switch,
)
from vitrail.tasks.verb_options import EnginePredictOptions, ProtocolEvalOptions
from vitrail.tasks.verb_options import ExplainOptions as SharedExplainOptions
from vitrail.tasks.weights_options import PretrainedOptions


@dataclass(frozen=True, kw_only=True)
class Options(
    JitterOptions,
    MovementOptions,
    AveragingOptions,
    LayerDecayOptions,
    OptimizerOptions,
    CacheOptions,
    ValSplitOptions,
    PartOptions,
    ImageOptions,
    PretrainedOptions,
    CommonOptions,
):
    """What `vitrail train --task detect` takes."""

    renamed: ClassVar[Mapping[str, str]] = {
        "queries": "num_queries", "guesses": "matches_per_object", "least_window": "min_crop", "turns": "dihedral",
    }  # fmt: skip
    retired: ClassVar[Mapping[str, Any]] = {"shard": False, "smoothing": 0.0}
    of_weights: ClassVar[tuple[str, ...]] = ("model", "position", "position_where", "attention", "attention_options")

    task: Annotated[Literal["detect"], Parameter(help="What to learn.")] = "detect"
    recipe: Annotated[Literal["auto", "tiny", "small", "medium", "finetune", "plain"], HOW_TO_LEARN] = "auto"
    num_queries: Annotated[
        int | Auto,
        Range(ge=1, le=10_000),
        integer("Objects to look for in an image; auto: twice as many as one has at most.", group=TASK),
    ] = "auto"
    denoising: Annotated[
        int | Auto,
        Range(ge=0, le=1000),
        integer("Queries made of objects with noise, to learn from too; 0: none; auto: the model's.", group=TASK),
    ] = "auto"
    query_kind: Annotated[
        Literal["auto", "learned", "anchor", "selected"],
        Parameter(
            group=TASK,
            help="What a query begins as: a learned row (DETR), a learned box, or a box at a cell of the image; auto: the model's.",
        ),
    ] = "auto"
    matches_per_object: Annotated[
        int | Auto,
        Range(ge=1, le=100),
        integer("Selected cells that are matched with each object in the loss; 1: one-to-one; auto: the model's.", group=TASK),
    ] = "auto"
    negatives: Annotated[
        bool | None,
        Parameter(
            group=TASK,
            help="Let half of the queries with noise be too far off to match anything; by default as the model has it.",
        ),
    ] = None
    focal: Annotated[
        bool | None,
        Parameter(
            group=TASK,
            help="A sigmoid for each class and the focal loss, not one softmax with a class for nothing; by default as the model has it.",
        ),
    ] = None
    image_size: Annotated[
        tuple[int, ...] | None,
        COUNT,
        several(
            "N, or H W, in pixels; by default about 320x240 of them in the images' aspect, or their own size.", group=IMAGES
        ),
    ] = None
    flip: Annotated[
        bool | None, Parameter(group=AUGMENTATION, help="Mirror left and right; on by default.", negative="--no-flip")
    ] = None
    min_crop: Annotated[
        float | Auto,
        Range(gt=0, le=1),
        Parameter(group=AUGMENTATION, help="Crop half of the images to at least this share of each side; 1: never."),
    ] = "auto"
    dihedral: Annotated[
        bool, switch("Rotate by quarters, and mirror top and bottom: for images without an up.", group=AUGMENTATION)
    ] = False

    def check(self) -> None:
        super().check()
        if self.cache == "disk":
            raise VitrailError("--cache disk: images of any size are cached in memory or not at all; give memory or off")


@dataclass(frozen=True, kw_only=True)
class EvalOptions(ProtocolEvalOptions):
    """What `vitrail eval` takes beside a detector."""


@dataclass(frozen=True, kw_only=True)
class PredictOptions(EnginePredictOptions):
    """What `vitrail predict` takes beside a detector and images."""

    threshold: Annotated[
        float | None,
        Range(ge=0, le=1),
        Parameter(help="Report boxes from this score on; by default 0.5, or 0.3 of a model with sigmoids."),
    ] = None
    out: Annotated[str | None, Parameter(help="A folder for NAME_boxes.png: each image with its boxes.")] = None


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(SharedExplainOptions):
    """What `vitrail explain` takes beside a detector and images: its boxes are explained by attention."""

    box: Annotated[int | None, integer("The number of a box, of which 0 has the highest score; by default the first five.")] = (
        None
    )
    target: Annotated[str | None, Parameter(help="Explain boxes of this class; by default of all.")] = None
    layer: Annotated[
        int | None,
        integer("Show the heads of this block of the decoder, from 0, or from -1 backwards; by default the last one."),
    ] = None
    head: Annotated[int | None, integer("Show this head alone; by default each of them.")] = None


BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "batch_size": 16, "lr": 4e-4, "weight_decay": 0.01, "warmup": 0.05, "schedule": "cosine", "clip_grad": 1.0, "shift": 0.1,
        "rotate": 0.0,  # the box around a rotated box is wider than the object
        "zoom": 0.25, "color_jitter": 0.2, "min_crop": 0.5, "optimizer": "adamw", "layer_decay": 1.0, "ema": 0.998, "sam": 0.0,
    }
)  # fmt: skip
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        # Hundreds of images: many passes, with Muon (docs/log.md has the trial).
        "tiny": BASE | {"epochs": 60, "batch_size": 8, "lr": 2e-3, "optimizer": "muon"},
        "small": BASE | {"epochs": 20, "lr": 2e-3, "optimizer": "muon"},
        # As many as COCO has.
        "medium": BASE | {
            "epochs": 50, "batch_size": 32, "lr": 2e-4, "weight_decay": 1e-4, "clip_grad": 0.1, "ema": 0.9998,
        },
        "finetune": BASE | {"epochs": 40, "batch_size": 8, "lr": 2e-4},
        # No augmentation but --flip, and no average of the weights: the baseline to compare with.
        "plain": BASE | {"epochs": 40, "shift": 0.0, "zoom": 0.0, "color_jitter": 0.0, "min_crop": 1.0, "ema": 0.0},
    }
)  # fmt: skip
