"""Options of masked autoencoders. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.tasks.blocks import (
    AugmentationOptions,
    AveragingOptions,
    DropPathOptions,
    LayerDecayOptions,
    MaskOptions,
    PartOptions,
    PretrainingOptions,
)
from vitrail.tasks.options import COUNT, TASK, Auto, CommonOptions, integer, switch
from vitrail.tasks.verb_options import PretrainingEvalOptions


@dataclass(frozen=True, kw_only=True)
class Options(
    MaskOptions,
    AugmentationOptions,
    AveragingOptions,
    LayerDecayOptions,
    DropPathOptions,
    PartOptions,
    PretrainingOptions,
    CommonOptions,
):
    """What `vitrail pretrain --method mae` takes."""

    retired: ClassVar[Mapping[str, Any]] = {"repeats": 1}

    task: Annotated[Literal["mae"], Parameter(help="What to learn.")] = "mae"
    decoder_depth: Annotated[int | Auto, COUNT, integer("Blocks of the decoder; auto: half of the encoder's.", group=TASK)] = (
        "auto"
    )
    decoder_width: Annotated[int | Auto, COUNT, integer("Width of the decoder; auto: half of the encoder's.", group=TASK)] = (
        "auto"
    )
    mask_tokens: Annotated[
        Literal["decoder", "encoder"],
        Parameter(group=TASK, help="Where tokens stand for masked patches; in the encoder too is the slow control."),
    ] = "decoder"
    plain_pixels: Annotated[bool, switch("Predict pixels as they are, not normalized patch by patch.", group=TASK)] = False


@dataclass(frozen=True, kw_only=True)
class EvalOptions(PretrainingEvalOptions):
    """What `vitrail eval` takes beside a masked autoencoder."""


BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "weight_decay": 0.05, "warmup": 0.05, "schedule": "cosine", "clip_grad": 1.0, "drop_path": 0.0, "shift": 0.1,
        "rotate": 0.0, "zoom": 0.1, "cutout": 0.0, "operations": 0, "magnitude": 9.0, "erase": 0.0, "optimizer": "adamw",
        "layer_decay": 1.0, "ema": 0.0, "sam": 0.0,
    }
)  # fmt: skip
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": BASE | {"epochs": 200, "batch_size": 64, "lr": 1.5e-3},
        "small": BASE | {"epochs": 40, "batch_size": 128, "lr": 1.5e-3},
        "medium": BASE | {"epochs": 200, "batch_size": 512, "lr": 6e-4},
        "large": BASE | {"epochs": 40, "batch_size": 1024, "lr": 6e-4},
        "finetune": BASE | {"epochs": 40, "batch_size": 128, "lr": 5e-4},
        "plain": BASE | {"epochs": 40, "batch_size": 128, "lr": 1.5e-3, "shift": 0.0, "zoom": 0.0},
    }
)
