"""Options of MoCo v3. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from vitrail.errors import VitrailError
from vitrail.tasks.options import CommonOptions
from vitrail.tasks.pretraining_options import ViewOptions
from vitrail.tasks.verb_options import PretrainingEvalOptions


@dataclass(frozen=True, kw_only=True)
class Options(ViewOptions, CommonOptions):
    """What `vitrail pretrain --method moco` takes."""

    task: Annotated[Literal["moco"], Parameter(help="What to learn.")] = "moco"

    def check(self) -> None:
        super().check()
        if self.accumulate > 1:
            raise VitrailError(
                f"--accumulate {self.accumulate}: --method moco tells the images of a batch apart, which cannot come in parts"
            )


EvalOptions = PretrainingEvalOptions


BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "weight_decay": 0.1, "warmup": 0.1, "schedule": "cosine", "clip_grad": 1.0, "drop_path": 0.0, "optimizer": "adamw",
        "layer_decay": 1.0,
    }
)  # fmt: skip
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": BASE | {"epochs": 200, "batch_size": 256, "lr": 4e-3, "optimizer": "muon"},
        "small": BASE | {"epochs": 80, "batch_size": 256, "lr": 4e-3, "optimizer": "muon"},
        "medium": BASE | {"epochs": 300, "batch_size": 1024, "lr": 6e-4, "warmup": 0.13},
        "large": BASE | {"epochs": 100, "batch_size": 4096, "lr": 2.4e-3, "warmup": 0.13},
        "finetune": BASE | {"epochs": 50, "batch_size": 256, "lr": 3e-4},
        "plain": BASE | {"epochs": 80, "batch_size": 256, "lr": 1e-3},
    }
)
