"""Blocks of options of tasks on text. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cyclopts import Parameter

from vitrail.tasks.blocks import (
    AveragingOptions,
    DropoutOptions,
    LayerDecayOptions,
    OptimizerOptions,
    PartOptions,
    SmoothingOptions,
)
from vitrail.tasks.options import COUNT, TEXT, Auto, Block, Range, integer, switch


@dataclass(frozen=True, kw_only=True)
class TextOptions(DropoutOptions):
    """Text that is cut into subwords."""

    renamed: ClassVar[Mapping[str, str]] = {"longest": "max_length"}

    recipe: Annotated[
        Literal["auto", "tiny", "small", "medium", "finetune", "plain"],
        Parameter(help="How to learn; auto: by the amount of text, finetune with --weights."),
    ] = "auto"
    vocabulary: Annotated[int | Auto, Range(ge=16), integer("Subwords; auto: by the size of the data.", group=TEXT)] = "auto"
    lower: Annotated[bool, switch("Write everything in lower case.", group=TEXT)] = False
    bytes: Annotated[bool, switch("Write letters that train does not have as bytes, 256 of the vocabulary.", group=TEXT)] = (
        False
    )
    max_length: Annotated[
        int | Auto, Range(ge=2), integer("Tokens of a sentence, at most; longer ones are left out.", group=TEXT)
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class TokenBatchOptions(Block):
    """How much text a step sees."""

    batch_tokens: Annotated[
        int | Auto, Range(ge=16), integer("Tokens per step, padding included; the recipe's unless given.", group=TEXT)
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class TextModelOptions(
    TokenBatchOptions, TextOptions, AveragingOptions, LayerDecayOptions, SmoothingOptions, OptimizerOptions, PartOptions
):
    """How a model of text alone learns."""


@dataclass(frozen=True, kw_only=True)
class BeamOptions(Block):
    """Beam search."""

    renamed: ClassVar[Mapping[str, str]] = {"beams": "num_beams"}

    num_beams: Annotated[int, COUNT, integer("Beams of the search that writes the outputs for test.", group=TEXT)] = 5
