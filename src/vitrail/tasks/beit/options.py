"""Options of BEiT. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.tasks.options import TASK, CommonOptions
from vitrail.tasks.pretraining_options import MASKED, MaskOptions
from vitrail.tasks.verb_options import PretrainingEvalOptions


@dataclass(frozen=True, kw_only=True)
class Options(MaskOptions, CommonOptions):
    """What `vitrail pretrain --method beit` takes."""

    paths: ClassVar[tuple[str, ...]] = ("tokenizer",)

    task: Annotated[Literal["beit"], Parameter(help="What to learn.")] = "beit"
    tokenizer: Annotated[
        str | None, Parameter(group=TASK, help="The run of `vitrail pretrain --method dvae` whose codes are predicted.")
    ] = None


EvalOptions = PretrainingEvalOptions


RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": MASKED | {"epochs": 200, "batch_size": 64, "lr": 1.5e-3},
        "small": MASKED | {"epochs": 40, "batch_size": 128, "lr": 1.5e-3},
        "medium": MASKED | {"epochs": 200, "batch_size": 512, "lr": 1e-3, "drop_path": 0.1},
        "large": MASKED | {"epochs": 40, "batch_size": 1024, "lr": 1.5e-3, "drop_path": 0.1},
        "finetune": MASKED | {"epochs": 40, "batch_size": 128, "lr": 5e-4},
        "plain": MASKED | {"epochs": 40, "batch_size": 128, "lr": 1.5e-3, "shift": 0.0, "zoom": 0.0},
    }
)
