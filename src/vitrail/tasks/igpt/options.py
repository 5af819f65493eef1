"""Options of image GPT. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.errors import VitrailError
from vitrail.tasks.augmentation_options import MovementOptions
from vitrail.tasks.blocks import AveragingOptions, DropoutOptions, LayerDecayOptions, PartOptions
from vitrail.tasks.options import AUGMENTATION, COUNT, SEED, SHARE, TASK, Auto, CommonOptions, Range, integer, switch
from vitrail.tasks.pretraining_options import PretrainingOptions
from vitrail.tasks.verb_options import PredictOptions as SharedPredictOptions
from vitrail.tasks.verb_options import ReadingEvalOptions


@dataclass(frozen=True, kw_only=True)
class Options(
    MovementOptions,
    AveragingOptions,
    LayerDecayOptions,
    DropoutOptions,
    PartOptions,
    PretrainingOptions,
    CommonOptions,
):
    """What `vitrail pretrain --method igpt` takes."""

    retired: ClassVar[Mapping[str, Any]] = {
        "drop_path": 0.0, "cutout": 0.0, "erase": 0.0, "operations": 0, "magnitude": 9.0,
    }  # fmt: skip

    task: Annotated[Literal["igpt"], Parameter(help="What to learn.")] = "igpt"
    masked: Annotated[
        bool, switch("Predict masked pixels from all others, instead of each from those before it.", group=TASK)
    ] = False
    colors: Annotated[
        int | Auto,
        Range(ge=2, le=2**16),
        integer("Of the palette, at most; auto: the model's. Fewer if the images have fewer.", group=TASK),
    ] = "auto"
    repeats: Annotated[
        int | Auto, COUNT, integer("Times each image comes in a batch, augmented each time.", group=AUGMENTATION)
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class EvalOptions(ReadingEvalOptions):
    """What `vitrail eval` takes beside a model of pixels, whose report has a linear probe of every layer already."""

    def check(self) -> None:
        super().check()
        if self.out is not None:
            raise VitrailError("--out: a model of pixels gives no predictions to write; vitrail complete draws images")


@dataclass(frozen=True, kw_only=True)
class PredictOptions(SharedPredictOptions):
    """What `vitrail complete` takes beside RUN and images."""

    out: Annotated[str | None, Parameter(help="A new or empty folder for the images and their sheet.")] = None
    samples: Annotated[int, COUNT, integer("Completions of each.")] = 4
    keep: Annotated[float, SHARE, Parameter(help="Share of the rows, from the top, that is given; 0: images from nothing.")] = (
        0.5
    )
    temperature: Annotated[
        float, Range(ge=0), Parameter(help="Below 1 likelier colors, above 1 wilder ones; 0: the likeliest each time.")
    ] = 1.0
    top_k: Annotated[int | None, COUNT, integer("Sample among so many of the likeliest colors.")] = None
    top_p: Annotated[
        float | None, Range(gt=0, le=1), Parameter(help="Sample among the likeliest colors that make up this share.")
    ] = None
    seed: Annotated[int, SEED, integer("Decides every sample.")] = 0
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"

    def check(self) -> None:
        super().check()
        if self.out is None:
            raise VitrailError("--out is missing: a new or empty folder for the images and their sheet")


BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "weight_decay": 0.05, "warmup": 0.05, "schedule": "cosine", "clip_grad": 1.0, "shift": 0.0, "rotate": 0.0, "zoom": 0.0,
        "repeats": 1, "optimizer": "adamw", "layer_decay": 1.0, "ema": 0.0, "sam": 0.0,
    }
)  # fmt: skip
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": BASE | {"epochs": 60, "batch_size": 64, "lr": 3e-3},
        "small": BASE | {"epochs": 20, "batch_size": 64, "lr": 2e-3},
        "medium": BASE | {"epochs": 5, "batch_size": 128, "lr": 1e-3},
        "large": BASE | {"epochs": 1, "batch_size": 128, "lr": 1e-3},
        "finetune": BASE | {"epochs": 10, "batch_size": 64, "lr": 5e-4},
        "plain": BASE | {"epochs": 30, "batch_size": 64, "lr": 1e-3},  # without dropout
    }
)


# `vitrail complete`: its help.
PREDICT_ABOUT = """Complete images of which the upper part is given, several times each.

Of images every sample is written as a PNG in the model's size, and one sheet: the original, what was given of it, the samples.
"""
PREDICT_EXAMPLES = """\
  vitrail complete runs/igpt/digits image.png --out finished/
  vitrail complete runs/igpt/digits folder/ "more/*.png" --out finished/ --samples 8 --keep 0.25
  vitrail complete runs/igpt/digits image.png --out finished/ --temperature 0.8 --top-k 20
"""
