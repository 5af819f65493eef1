"""Options of masked autoencoders. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from vitrail.tasks.options import COUNT, TASK, Auto, CommonOptions, integer, switch
from vitrail.tasks.pretraining_options import MASKED, MaskOptions
from vitrail.tasks.verb_options import PretrainingEvalOptions


@dataclass(frozen=True, kw_only=True)
class Options(MaskOptions, CommonOptions):
    """What `vitrail pretrain --method mae` takes."""

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


EvalOptions = PretrainingEvalOptions


RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": MASKED | {"epochs": 200, "batch_size": 64, "lr": 1.5e-3},
        "small": MASKED | {"epochs": 40, "batch_size": 128, "lr": 1.5e-3},
        "medium": MASKED | {"epochs": 200, "batch_size": 512, "lr": 6e-4},
        "large": MASKED | {"epochs": 40, "batch_size": 1024, "lr": 6e-4},
        "finetune": MASKED | {"epochs": 40, "batch_size": 128, "lr": 5e-4},
        "plain": MASKED | {"epochs": 40, "batch_size": 128, "lr": 1.5e-3, "shift": 0.0, "zoom": 0.0},
    }
)
