"""Options of the toy. No torch here."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.tasks.augmentation_options import FlipOptions
from vitrail.tasks.blocks import ImageOptions, OptimizerOptions
from vitrail.tasks.options import TASK, CommonOptions, Range, integer


@dataclass(frozen=True, kw_only=True)
class Options(FlipOptions, OptimizerOptions, ImageOptions, CommonOptions):
    task: Annotated[Literal["count"], Parameter(help="What to learn.")] = "count"
    images: Annotated[int, Range(ge=10), integer("Training images to draw.", group=TASK)] = 64
