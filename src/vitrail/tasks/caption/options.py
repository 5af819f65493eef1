"""Options of captions. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.tasks import verb_options as shared
from vitrail.tasks.augmentation_options import AugmentationOptions
from vitrail.tasks.blocks import (
    AveragingOptions,
    CacheOptions,
    ImageOptions,
    LayerDecayOptions,
    OptimizerOptions,
    PartOptions,
    SmoothingOptions,
)
from vitrail.tasks.options import AUGMENTATION, COUNT, TEXT, Auto, CommonOptions, Range, integer
from vitrail.tasks.text_options import BeamOptions, TextOptions
from vitrail.tasks.verb_options import BeamEvalOptions, ReadingEvalOptions


@dataclass(frozen=True, kw_only=True)
class Options(
    BeamOptions,
    TextOptions,
    AugmentationOptions,
    AveragingOptions,
    LayerDecayOptions,
    SmoothingOptions,
    OptimizerOptions,
    CacheOptions,
    PartOptions,
    ImageOptions,
    CommonOptions,
):
    """What `vitrail train --task caption` takes."""

    retired: ClassVar[Mapping[str, Any]] = {
        "balance": "none", "shard": False, "drop_path": 0.0, "mixup": 0.0, "cutmix": 0.0, "repeats": 1, "token_keep": 1.0,
        "progressive": 1.0, "batch_tokens": "auto",
    }  # fmt: skip

    data: Annotated[str, Parameter(help="A folder with captions.json, a JSON file (see the docs), or the built-in shapes.")]
    task: Annotated[Literal["caption"], Parameter(help="What to learn.")] = "caption"
    max_length: Annotated[
        int | Auto, Range(ge=2), integer("Tokens of a caption, at most; longer ones are cut.", group=TEXT)
    ] = "auto"
    flip: Annotated[
        bool | None,
        Parameter(
            group=AUGMENTATION, help="Mirror left and right; by default not: captions say left and right.", negative="--no-flip"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class EvalOptions(BeamEvalOptions, ReadingEvalOptions):
    """What `vitrail eval` takes beside a captioner."""


@dataclass(frozen=True, kw_only=True)
class PredictOptions(shared.PredictOptions):
    """What `vitrail predict` takes beside a captioner and images."""

    renamed: ClassVar[Mapping[str, str]] = {"beams": "num_beams"}

    num_beams: Annotated[int, COUNT, integer("Beams of the search; 1: the likeliest token each time.")] = 5
    out: Annotated[
        str | None, Parameter(help="A new folder for figures: where the model looked for each word of each caption.")
    ] = None


# How to learn from so many images: rows chosen by the size of the training split. Each value can be overridden by its option.
# Images are neither rotated nor mirrored: captions say left, right and below.
BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "batch_size": 64, "lr": 1e-3, "weight_decay": 0.05, "warmup": 0.05, "schedule": "cosine", "label_smoothing": 0.0,
        "clip_grad": 1.0, "shift": 0.0, "rotate": 0.0, "zoom": 0.0, "cutout": 0.0, "operations": 0, "magnitude": 9.0, "erase": 0.0,
        "optimizer": "adamw", "layer_decay": 1.0, "ema": 0.998, "sam": 0.0,
    }
)  # fmt: skip
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": {**BASE, "epochs": 30},
        "small": {**BASE, "epochs": 10},
        "medium": {**BASE, "epochs": 20, "batch_size": 256, "weight_decay": 0.1, "label_smoothing": 0.1, "ema": 0.9995},
        "finetune": {**BASE, "epochs": 5, "lr": 3e-4, "warmup": 0.1},
        "plain": {**BASE, "epochs": 30, "ema": 0.0},
    }
)

# Small images, a Transformer: these instead, in all but `plain` and `finetune` (docs/log.md has the trials).
SMALL = 64  # pixels a side, at most
SMALL_IMAGES: Mapping[str, Any] = MappingProxyType({"optimizer": "muon", "lr": 4e-3})


def caption_recipe(name: str, *, size: tuple[int, int], hidden: bool) -> Mapping[str, Any]:
    """The recipe of a name; `hidden`: the model has blocks, whose matrices Muon is for."""
    small = name in ("tiny", "small") and max(size) <= SMALL and hidden
    return {**RECIPES[name], **SMALL_IMAGES} if small else RECIPES[name]


# `vitrail caption`: its help.
PREDICT_ABOUT = """Say in words what is in images.

One image with --json gives [{"generated_text"}]; several give a list of such lists, null for an unreadable one.
"""
PREDICT_EXAMPLES = """\
  vitrail caption runs/caption/shapes image.png
  vitrail caption runs/caption/shapes folder/ "more/*.jpg" --num-beams 1
  vitrail caption runs/caption/shapes image.png --out look/
"""
