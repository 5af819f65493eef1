"""Options of discrete VAEs. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.tasks.augmentation_options import AugmentationOptions
from vitrail.tasks.blocks import AveragingOptions
from vitrail.tasks.options import TASK, Auto, CommonOptions, Range, integer
from vitrail.tasks.pretraining_options import PretrainingOptions
from vitrail.tasks.verb_options import PretrainingEvalOptions


@dataclass(frozen=True, kw_only=True)
class Options(AugmentationOptions, AveragingOptions, PretrainingOptions, CommonOptions):
    """What `vitrail pretrain --method dvae` takes."""

    retired: ClassVar[Mapping[str, Any]] = {
        "position": None, "position_where": "auto", "attention": None, "drop_path": 0.0, "layer_decay": 1.0,
        "repeats": 1,
    }  # fmt: skip

    task: Annotated[Literal["dvae"], Parameter(help="What to learn.")] = "dvae"
    codes: Annotated[
        int | Auto, Range(ge=2, le=2**16), integer("Codes of the visual vocabulary; auto: the model's.", group=TASK)
    ] = "auto"
    temperature: Annotated[
        float | Auto, Range(gt=0), Parameter(group=TASK, help="Of Gumbel's softmax, at the end; auto: 1/16.")
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class EvalOptions(PretrainingEvalOptions):
    """What `vitrail eval` takes beside a discrete VAE."""


BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "weight_decay": 1e-4, "warmup": 0.05, "schedule": "cosine", "clip_grad": 1.0, "shift": 0.1, "rotate": 0.0, "zoom": 0.0,
        "cutout": 0.0, "operations": 0, "magnitude": 9.0, "erase": 0.0, "optimizer": "adamw", "ema": 0.0, "sam": 0.0,
    }
)  # fmt: skip
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": BASE | {"epochs": 100, "batch_size": 64, "lr": 3e-3},
        "small": BASE | {"epochs": 20, "batch_size": 64, "lr": 3e-3},
        "medium": BASE | {"epochs": 20, "batch_size": 256, "lr": 1e-3, "ema": 0.999},
        "large": BASE | {"epochs": 5, "batch_size": 512, "lr": 1e-3, "ema": 0.9999},
        "finetune": BASE | {"epochs": 20, "batch_size": 64, "lr": 1e-3},
        "plain": BASE | {"epochs": 20, "batch_size": 64, "lr": 3e-3, "shift": 0.0},
    }
)
