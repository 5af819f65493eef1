"""Options of restoring images: enlarging, denoising, undoing compression. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.errors import VitrailError
from vitrail.tasks import verb_options as shared
from vitrail.tasks.augmentation_options import FlipOptions
from vitrail.tasks.blocks import (
    AveragingOptions,
    BatchOptions,
    CacheOptions,
    ChannelOptions,
    LayerDecayOptions,
    OptimizerOptions,
    PartOptions,
    ReadingOptions,
)
from vitrail.tasks.options import AUGMENTATION, COUNT, HOW_TO_LEARN, IMAGES, TASK, Auto, CommonOptions, Range, integer
from vitrail.tasks.verb_options import ReadingEvalOptions


@dataclass(frozen=True, kw_only=True)
class Options(
    FlipOptions,
    AveragingOptions,
    LayerDecayOptions,
    OptimizerOptions,
    CacheOptions,
    PartOptions,
    ReadingOptions,
    ChannelOptions,
    BatchOptions,
    CommonOptions,
):
    """What `vitrail train --task restore` takes."""

    retired: ClassVar[Mapping[str, Any]] = {"smoothing": 0.0, "shard": False}

    task: Annotated[Literal["restore"], Parameter(help="What to learn.")] = "restore"
    recipe: Annotated[Literal["auto", "small", "finetune", "plain"], HOW_TO_LEARN] = "auto"
    batch_size: Annotated[int | Auto, COUNT, integer("Patches per step.", group=IMAGES)] = "auto"
    degrade: Annotated[
        str | None,
        Parameter(
            group=TASK,
            help="What to undo: srN (N of 2, 3, 4, 8 times smaller), noiseS (of S levels of 255), jpegQ (of quality Q), realN (blur, "
            "noise, JPEG and N times smaller).",
        ),
    ] = None
    patch_size: Annotated[int | Auto, COUNT, integer("Side of the patches that the model is given.", group=TASK)] = "auto"
    patches: Annotated[int | Auto, COUNT, integer("Of each image, per epoch; auto: some thousands in all.", group=TASK)] = (
        "auto"
    )
    flip: Annotated[
        bool | None,
        Parameter(
            group=AUGMENTATION, help="Mirror and rotate by quarters; by default in each recipe but plain.", negative="--no-flip"
        ),
    ] = None

    def check(self) -> None:
        super().check()
        if self.degrade is not None or not self.resume:  # a run that is continued has its own
            check_degradation(self.degrade)
        if self.cache == "disk":
            raise VitrailError("--cache disk: images of any size are stored in memory or not at all; give memory or off")


def check_degradation(degrade: str | None) -> None:
    """There is no damage that most people would mean."""
    from vitrail.data.degradation import RULES, parse_degradation  # torch

    if degrade is None:
        raise VitrailError(f"--task restore needs --degrade, what to undo: {RULES}")
    parse_degradation(degrade)


@dataclass(frozen=True, kw_only=True)
class EvalOptions(ReadingEvalOptions):
    """What `vitrail eval` takes beside a restorer."""

    degrade: Annotated[str | None, Parameter(help="Another damage than it learned to undo, such as sr2.")] = None


@dataclass(frozen=True, kw_only=True)
class PredictOptions(shared.PredictOptions):
    """What `vitrail restore` and `vitrail predict` take beside a restorer."""

    tile: Annotated[
        int | Auto, COUNT, integer("Restore pieces of this side, so that memory is bounded; auto: images over 512.")
    ] = "auto"
    overlap: Annotated[
        int | None, Range(ge=0), integer("Pixels that neighboring pieces share; by default as far as the model sees.")
    ] = None
    out: Annotated[str | None, Parameter(help="A folder for the images; by default each lies beside its original.")] = None
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"


# How to learn. Each value can be overridden by its option.
BASE: MappingProxyType[str, Any] = MappingProxyType(
    {
        "batch_size": 8, "weight_decay": 0.0, "warmup": 0.05, "schedule": "cosine", "clip_grad": 1.0, "optimizer": "adamw",
        "layer_decay": 1.0, "ema": 0.0, "sam": 0.0,
    }
)  # fmt: skip
RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "small": BASE | {"epochs": 40, "lr": 1e-3, "ema": 0.999},
        "finetune": BASE | {"epochs": 20, "lr": 3e-4, "ema": 0.999},
        # Without augmentation and the average of the weights: the baseline to compare with.
        "plain": BASE | {"epochs": 40, "lr": 1e-3},
    }
)


# `vitrail restore`: its help.
PREDICT_ABOUT = """Enlarge images, take away their noise, or mend them: whatever the model learned to undo.

Each becomes NAME_restored.png, upright, in 8 bits; a gray one stays gray, transparency is kept, and no file is overwritten.
"""
PREDICT_EXAMPLES = """\
  vitrail restore runs/restore/photos a.png
  vitrail restore runs/restore/photos folder/ "more/*.jpg" --out better/
  vitrail restore runs/restore/photos large.tif --tile 256 --overlap 32
"""
