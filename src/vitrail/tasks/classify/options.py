"""Options of image classification. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.errors import VitrailError
from vitrail.records import OMITTED
from vitrail.tasks.augmentation_options import AugmentationOptions
from vitrail.tasks.blocks import (
    AveragingOptions,
    CacheOptions,
    DropPathOptions,
    ImageOptions,
    LayerDecayOptions,
    OptimizerOptions,
    PartOptions,
    ShardOptions,
    SmoothingOptions,
    ValSplitOptions,
)
from vitrail.tasks.options import (
    AUGMENTATION,
    COUNT,
    IMAGES,
    RECIPE,
    SHARE,
    TASK,
    Auto,
    CommonOptions,
    Range,
    integer,
    spell,
    switch,
    whole,
)
from vitrail.tasks.verb_options import EnginePredictOptions, ProtocolEvalOptions
from vitrail.tasks.verb_options import ExplainOptions as SharedExplainOptions
from vitrail.tasks.weights_options import FreezeOptions, LoraOptions, PretrainedOptions


@dataclass(frozen=True, kw_only=True)
class Options(
    AugmentationOptions,
    AveragingOptions,
    LayerDecayOptions,
    DropPathOptions,
    SmoothingOptions,
    OptimizerOptions,
    LoraOptions,
    FreezeOptions,
    ShardOptions,
    CacheOptions,
    ValSplitOptions,
    PartOptions,
    ImageOptions,
    PretrainedOptions,
    CommonOptions,
):
    """What `vitrail train --task classify` takes."""

    paths: ClassVar[tuple[str, ...]] = ("teacher",)
    by_default: ClassVar[Literal["auto", "none"]] = "auto"
    of_weights: ClassVar[tuple[str, ...]] = ("model", "position", "position_where", "attention", "attention_options")

    task: Annotated[Literal["classify"], Parameter(help="What to learn.")] = "classify"
    pack: Annotated[
        bool,
        switch(
            "Keep each image's aspect, with at most the pixels of --image-size; as many share a step as have the tokens of "
            "--batch-size full ones.",
            group=IMAGES,
        ),
    ] = False
    balance: Annotated[
        Literal["none", "weights", "sampling"],
        Parameter(group=TASK, help="For classes of unequal size: weigh the loss, or draw every class equally often."),
    ] = "none"
    merge: Annotated[
        int | None,
        Range(ge=0),
        integer("Tokens that each block of a vit merges into others, for speed; by default as the model has it.", group=TASK),
    ] = None
    labels: Annotated[
        float,
        Range(gt=0, le=1),
        Parameter(group=TASK, help="Share of the training images to learn from, of every class alike."),
    ] = 1.0
    folds: Annotated[
        int | None,
        Range(ge=2, le=100),
        integer(
            "For few images: validate on so many parts of train and val in turn, then train on all but test for the median best epoch.",
            group=TASK,
        ),
    ] = field(default=None, metadata=OMITTED)
    fold: Annotated[
        int | None,
        COUNT,
        integer("Train one of the --folds only, from 1; by default all of them, then the last model.", group=TASK),
    ] = field(default=None, metadata=OMITTED)
    teacher: Annotated[
        str | None, Parameter(group=TASK, help="A run or model whose predictions are learned from too (DeiT).")
    ] = None
    distill: Annotated[
        Literal["hard", "soft"], Parameter(group=TASK, help="Learn the teacher's likeliest class, or its probabilities.")
    ] = "hard"
    distill_share: Annotated[
        float | None,
        Range(ge=0, le=1),
        Parameter(group=TASK, help="Weight of the teacher's prediction in the loss; by default 0.5 hard, 0.1 soft."),
    ] = None
    distill_temperature: Annotated[
        float | None,
        Range(gt=0),
        Parameter(group=TASK, help="By which logits are divided where probabilities are learned; by default 3."),
    ] = None
    mixup: Annotated[
        float | Auto, Range(ge=0), Parameter(group=AUGMENTATION, help="Blend images in pairs: alpha of the shares; 0: not.")
    ] = "auto"
    cutmix: Annotated[
        float | Auto, Range(ge=0), Parameter(group=AUGMENTATION, help="Paste a rectangle of another image: alpha; 0: not.")
    ] = "auto"
    min_crop: Annotated[
        float | Auto,
        Range(gt=0, le=1),
        Parameter(group=AUGMENTATION, help="Share of the area that a random crop keeps at least; 1: whole images."),
    ] = "auto"
    repeats: Annotated[
        int | Auto, COUNT, integer("Times each image comes in a batch, augmented each time.", group=AUGMENTATION)
    ] = "auto"
    token_keep: Annotated[
        float | Auto, Range(gt=0, le=1), Parameter(group=RECIPE, help="Share of the patches seen in training.")
    ] = "auto"
    progressive: Annotated[
        float | Auto,
        Range(gt=0, le=1),
        Parameter(group=RECIPE, help="Begin with images of this share of the side; they grow."),
    ] = "auto"

    flip_test: Annotated[
        bool, switch("Score with the average of the predictions for the image and its mirror image.", group=TASK)
    ] = field(default=False, metadata=OMITTED)
    probe: Annotated[
        float | Auto,
        SHARE,
        Parameter(
            group=RECIPE, help="With --weights: share of the run in which only the head learns, before all does (LP-FT)."
        ),
    ] = "auto"

    def check(self) -> None:
        super().check()
        check_distillation(self)
        check_pack(self)
        check_probe(self)
        check_folds(self)


def check_folds(options: Options) -> None:
    """Who validates is said in one way."""
    if options.fold is not None and (options.folds is None or options.fold > options.folds):
        of = "give --folds too" if options.folds is None else f"there are {options.folds}"
        raise VitrailError(f"--fold {options.fold} is one of the folds: {of}")
    if options.folds is not None and options.val_split is not None:
        raise VitrailError(
            f"--folds {options.folds} and --val-split {options.val_split:g} are two ways to choose what validates: give one of them"
        )


def check_distillation(options: Options) -> None:
    """What says nothing without a teacher, or with this one."""
    if options.teacher is None:
        for name, nothing in (("distill", "hard"), ("distill_share", None), ("distill_temperature", None)):
            if getattr(options, name) != nothing:
                raise VitrailError(f"{spell(name)} {getattr(options, name)} is about a teacher: give --teacher too")
    elif options.distill == "hard" and options.distill_temperature not in (None, 1.0):
        raise VitrailError(
            f"--distill-temperature {options.distill_temperature} is about --distill soft; hard predictions have none"
        )


def check_probe(options: Options) -> None:
    """What has no encoder that could wait for its head."""
    if options.probe in ("auto", 0):
        return
    for wanted, option in (
        (options.freeze == "encoder", "--freeze encoder"),
        (options.teacher is not None, "--teacher"),
        (options.pack, "--pack"),
    ):
        if wanted:
            raise VitrailError(f"--probe {options.probe} and {option} do not go together: leave one of them out")


def check_pack(options: Options) -> None:
    """What needs all images of a step to be of one size."""
    if not options.pack:
        return
    for wanted, option in (
        (options.compile, "--compile"),
        (options.shard, "--shard"),
        (options.mixup not in ("auto", 0), f"--mixup {options.mixup}"),
        (options.cutmix not in ("auto", 0), f"--cutmix {options.cutmix}"),
        (options.progressive not in ("auto", 1), f"--progressive {options.progressive}"),
        (options.merge not in (None, 0), f"--merge {options.merge}"),
    ):
        if wanted:
            raise VitrailError(f"--pack and {option} do not go together: images of a step are of different sizes")


@dataclass(frozen=True, kw_only=True)
class EvalOptions(ProtocolEvalOptions):
    """What `vitrail eval` takes beside a classifier."""

    flip_test: Annotated[bool, switch("Average with the prediction for the mirror image.")] = False
    merge: Annotated[
        int | None, Range(ge=0), integer("Of a vit: tokens that each block merges into others; by default the run's.")
    ] = None


# How to learn from so many images: rows chosen by the size of the training split. Each value can be overridden by its option.
BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "weight_decay": 0.05, "warmup": 0.05, "schedule": "cosine", "label_smoothing": 0.1, "clip_grad": 1.0, "drop_path": 0.0,
        "shift": 0.0, "rotate": 0.0, "zoom": 0.0, "cutout": 0.0, "operations": 0, "magnitude": 9.0, "erase": 0.0, "mixup": 0.0,
        "cutmix": 0.0, "min_crop": 1.0, "probe": 0.0, "repeats": 1, "token_keep": 1.0, "progressive": 1.0, "optimizer": "adamw", "layer_decay": 1.0, "ema": 0.0,
        "sam": 0.0,
    }
)  # fmt: skip
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        # Up to some thousand images: many passes, images moved about. `vitrail train --data digits`: README, docs/log.md.
        "tiny": BASE | {"epochs": 60, "batch_size": 64, "lr": 2e-3, "shift": 0.1, "rotate": 12.0, "zoom": 0.1, "drop_path": 0.1},
        # Tens of thousands: fewer passes, larger batches.
        "small": BASE | {"epochs": 30, "batch_size": 128, "lr": 1e-3, "shift": 0.1, "rotate": 5.0, "zoom": 0.1, "drop_path": 0.05},
        # Hundreds of thousands, as ImageNet-1k in AugReg's middle setting [Steiner+ 2022, section 3.4].
        "medium": BASE | {
            "epochs": 100, "batch_size": 512, "lr": 1e-3, "weight_decay": 0.1, "drop_path": 0.1, "shift": 0.1, "zoom": 0.1,
            "operations": 2, "mixup": 0.2, "ema": 0.999,
        },
        # Millions, as ImageNet-21k there: less regularization, more data does the same.
        "large": BASE | {
            "epochs": 30, "batch_size": 1024, "lr": 1e-3, "weight_decay": 0.1, "warmup": 0.1, "label_smoothing": 0.0,
            "drop_path": 0.1, "shift": 0.1, "zoom": 0.1, "operations": 2, "ema": 0.9999,
        },
        # From trained weights (--weights): short, and gentle with the lower blocks [Bao+ 2022, appendix].
        "finetune": BASE | {
            "epochs": 10, "batch_size": 64, "lr": 5e-4, "warmup": 0.1, "drop_path": 0.1, "shift": 0.1, "zoom": 0.1,
            "layer_decay": 0.75,
        },
        # No augmentation, smoothing or stochastic depth: the baseline to compare with.
        "plain": BASE | {"epochs": 30, "batch_size": 128, "lr": 1e-3, "label_smoothing": 0.0},
    }
)  # fmt: skip

# Small photographs: `tiny` and `small` with these instead. No rotation, which small objects in color seldom make, so that images move by
# whole pixels; a hidden square; Muon, twice the learning rate, and an average of the weights (docs/log.md has the trials).
SMALL = 64  # pixels a side, at most
PHOTOGRAPHS: Mapping[str, Any] = MappingProxyType(
    {
        "batch_size": 128, "lr": 4e-3, "optimizer": "muon", "ema": 0.998, "drop_path": 0.05, "shift": 0.125, "rotate": 0.0,
        "zoom": 0.0, "cutout": 0.35,
    }
)  # fmt: skip
# Larger ones: crops instead of shifts, small images first, and images that are blended or pasted into each other.
LARGE_PHOTOGRAPHS: Mapping[str, Any] = MappingProxyType(
    {
        **PHOTOGRAPHS, "batch_size": 64, "shift": 0.0, "cutout": 0.2, "min_crop": 0.35, "progressive": 0.5, "mixup": 0.2,
        "cutmix": 1.0,
    }
)  # fmt: skip
# Photographs from trained weights.
TUNED_PHOTOGRAPHS: Mapping[str, Any] = MappingProxyType({"shift": 0.0, "zoom": 0.0, "min_crop": 0.35, "ema": 0.998})
# The same from those of a small net with a convolutional stem: all of it has to move, and fast (docs/log.md has the trials).
TUNED_STEM: Mapping[str, Any] = MappingProxyType(
    {**TUNED_PHOTOGRAPHS, "epochs": 30, "optimizer": "muon", "lr": 3e-3, "layer_decay": 1.0, "min_crop": 0.25}
)


# With --lora, any recipe with these instead: what is added begins at 0 and has far to go, in every block alike (docs/log.md has a trial).
LORA: Mapping[str, Any] = MappingProxyType({"lr": 2e-3, "layer_decay": 1.0, "optimizer": "adamw"})


def recipe_for(name: str, *, size: tuple[int, int], channels: int, stem: bool = False) -> Mapping[str, Any]:
    """The recipe of a name for images of this size; color images are taken for photographs, gray ones for drawings. `stem`: whether trained
    weights are of a net with a convolutional stem."""
    if channels != 3:
        return RECIPES[name]
    if name in ("tiny", "small"):
        return {**RECIPES[name], **(PHOTOGRAPHS if max(size) <= SMALL else LARGE_PHOTOGRAPHS)}
    if name == "finetune" and max(size) >= 48:
        return {**RECIPES[name], **(TUNED_STEM if stem else TUNED_PHOTOGRAPHS)}
    return RECIPES[name]


@dataclass(frozen=True, kw_only=True)
class PredictOptions(EnginePredictOptions):
    """What `vitrail predict` takes beside a classifier."""

    top_k: Annotated[int, COUNT, integer("How many classes to name for each image.")] = 3
    flip_test: Annotated[bool, switch("Average with the prediction for the mirror image.")] = False
    merge: Annotated[
        int | None, Range(ge=0), integer("Of a vit: tokens that each block merges into others; by default the run's.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(SharedExplainOptions):
    """What `vitrail explain` takes beside a classifier."""

    method: Annotated[
        str,
        Parameter(help="auto, relevance, rollout, attention, pooling, gradient or occlusion; auto: the best the model has."),
    ] = "auto"
    layer: Annotated[
        int | None,
        integer("Show the heads of this layer, from 0, or from -1 backwards; by default every layer."),
    ] = None
    head: Annotated[
        int | Literal["mean", "max", "min"] | None,
        integer("One head, or all together; by default their mean, with --layer each of them."),
    ] = None
    query: Annotated[
        tuple[int, int] | None,
        Parameter(converter=whole, negative="", help="ROW COL of a patch: what it attends to, and how, in six steps."),
    ] = None
    target: Annotated[str | None, Parameter(help="The class to explain; by default each image's most likely one.")] = None
