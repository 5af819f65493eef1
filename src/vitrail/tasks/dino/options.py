"""Options of DINO. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from vitrail.tasks.options import TASK, Auto, CommonOptions, Range, integer
from vitrail.tasks.pretraining_options import ViewOptions
from vitrail.tasks.verb_options import PretrainingEvalOptions


@dataclass(frozen=True, kw_only=True)
class Options(ViewOptions, CommonOptions):
    """What `vitrail pretrain --method dino` takes."""

    task: Annotated[Literal["dino"], Parameter(help="What to learn.")] = "dino"
    views: Annotated[
        int | Auto,
        Range(ge=0, le=64),
        integer("Small crops of an image, beside the two large ones; auto: by its size.", group=TASK),
    ] = "auto"
    prototypes: Annotated[
        int | Auto, Range(ge=2, le=2**20), integer("Outputs that teacher and student must agree on.", group=TASK)
    ] = "auto"
    teacher_temperature: Annotated[
        float | Auto, Range(gt=0), Parameter(group=TASK, help="Of the teacher's softmax; lower is sharper.")
    ] = "auto"


EvalOptions = PretrainingEvalOptions


BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "weight_decay": 0.04, "warmup": 0.1, "schedule": "cosine", "clip_grad": 1.0, "drop_path": 0.0, "optimizer": "adamw",
        "layer_decay": 1.0,
    }
)  # fmt: skip
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": BASE | {"epochs": 100, "batch_size": 128, "lr": 4e-3, "optimizer": "muon"},
        "small": BASE | {"epochs": 50, "batch_size": 128, "lr": 4e-3, "optimizer": "muon"},
        "medium": BASE | {"epochs": 100, "batch_size": 512, "lr": 1e-3, "drop_path": 0.1},
        "large": BASE | {"epochs": 30, "batch_size": 1024, "lr": 2e-3, "drop_path": 0.1},
        "finetune": BASE | {"epochs": 30, "batch_size": 128, "lr": 3e-4},
        "plain": BASE | {"epochs": 50, "batch_size": 128, "lr": 1e-3},
    }
)
