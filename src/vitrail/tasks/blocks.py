"""Blocks of training options, which tasks compose their own from: each with its ranges, help and rules. No torch here."""

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.errors import VitrailError, check_choice
from vitrail.records import OMITTED, Settings
from vitrail.tasks.options import (
    CHANNELS,
    COUNT,
    IMAGES,
    RECIPE,
    SHARE,
    Auto,
    Block,
    Range,
    as_size,
    integer,
    several,
    switch,
)


@dataclass(frozen=True, kw_only=True)
class AttentionOptions(Block):
    """The attention kernel of a model, by name."""

    attention: Annotated[str | None, Parameter(help="The attention kernel: softmax, cosine.")] = None
    attention_options: Annotated[
        Settings | None,
        Parameter(
            name=("--attention-options", "--attention-option"),
            negative="",
            help="KEY=VALUE: an option of the kernel; may be given several times.",
        ),
    ] = field(default=None, metadata=OMITTED)

    def check(self) -> None:
        super().check()
        if self.attention is not None:
            check_choice("attention", self.attention, attention_choices(getattr(self, "model", "auto")))
            if self.attention_options and self.attention in attention_choices("auto"):
                from vitrail.nn.attention.build import check_options

                check_options(self.attention, self.attention_options)

    def normalize(self) -> Any:
        found = super().normalize()
        return replace(found, attention_options=found.attention_options or None)


@dataclass(frozen=True, kw_only=True)
class PositionOptions(Block):
    """The position scheme of a model, by name."""

    position: Annotated[
        str | None,
        Parameter(
            help="none, sinusoidal_1d, sinusoidal_2d (each also with _concatenated), learned_1d, learned_2d, absolute_qk, "
            "absolute_qk_sinusoidal, relative_shaw, relative_projected, rotary, alibi (each also with _1d), relative_table, continuous_bias, "
            "conditional."
        ),
    ] = None
    position_where: Annotated[
        Literal["auto", "stem", "layers", "layers_apart"],
        Parameter(help="Once, in every layer the same, or in every layer its own; auto: as the scheme was published."),
    ] = "auto"

    def check(self) -> None:
        super().check()
        from vitrail.models.parts import position_where

        if self.position is not None:
            position_where(self.position, self.position_where)  # and that there is such a position

    def normalize(self) -> Any:
        from vitrail.models.parts import position_name

        found = super().normalize()
        return found if found.position is None else replace(found, position=position_name(found.position))


@dataclass(frozen=True, kw_only=True)
class PartOptions(AttentionOptions, PositionOptions):
    """Parts of a model that are chosen by name."""


def attention_choices(model: str) -> Sequence[str]:
    """The kernels, or what the config of a model of this name has for choices: a recurrent one's are others."""
    from vitrail.models.catalogue import model_config
    from vitrail.nn.attention.build import attention_names

    kinds: dict[str, Any] = {} if model == "auto" else {field.name: field.type for field in fields(model_config(model)[1])}
    hint = kinds.get("attention")
    literals = [kind for kind in (hint, *typing.get_args(hint)) if typing.get_origin(kind) is Literal]
    return tuple(choice for kind in literals for choice in typing.get_args(kind)) or attention_names()


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions(Block):
    """How weights move."""

    renamed: ClassVar[Mapping[str, str]] = {"clip": "clip_grad"}

    weight_decay: Annotated[float | Auto, Range(ge=0), Parameter(group=RECIPE, help="Weight decay.")] = "auto"
    warmup: Annotated[
        float | Auto, SHARE, Parameter(group=RECIPE, help="Share of the run in which the learning rate rises.")
    ] = "auto"
    schedule: Annotated[
        Literal["auto", "cosine", "inverse_sqrt", "constant"],
        Parameter(group=RECIPE, help="How the learning rate falls after the warmup."),
    ] = "auto"
    clip_grad: Annotated[float | Auto, Range(gt=0), Parameter(group=RECIPE, help="Largest norm of the gradient.")] = "auto"
    optimizer: Annotated[Literal["auto", "adamw", "muon", "sgd"], Parameter(group=RECIPE, help="What moves the weights.")] = (
        "auto"
    )


@dataclass(frozen=True, kw_only=True)
class AveragingOptions(Block):
    """An average of the weights, and flat minima."""

    ema: Annotated[
        float | Auto, SHARE, Parameter(group=RECIPE, help="Decay of the moving average of the weights; 0: none.")
    ] = "auto"
    sam: Annotated[
        float | Auto, Range(ge=0), Parameter(group=RECIPE, help="Radius of sharpness-aware minimization; 0: none.")
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class LayerDecayOptions(Block):
    """Lower learning rates for lower blocks."""

    layer_decay: Annotated[
        float | Auto,
        Range(gt=0, le=1),
        Parameter(group=RECIPE, help="Factor on the learning rate from a block to the one before."),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class SmoothingOptions(Block):
    """Softer targets."""

    renamed: ClassVar[Mapping[str, str]] = {"smoothing": "label_smoothing"}

    label_smoothing: Annotated[float | Auto, SHARE, Parameter(group=RECIPE, help="Label smoothing.")] = "auto"


@dataclass(frozen=True, kw_only=True)
class DropPathOptions(Block):
    """Stochastic depth."""

    drop_path: Annotated[float | Auto, SHARE, Parameter(group=RECIPE, help="Stochastic depth of the last block.")] = "auto"


@dataclass(frozen=True, kw_only=True)
class DropoutOptions(Block):
    """Dropout."""

    dropout: Annotated[float | Auto, SHARE, Parameter(group=RECIPE, help="Share of the activations set to 0 in training.")] = (
        "auto"
    )


@dataclass(frozen=True, kw_only=True)
class ShardOptions(Block):
    """A model that is divided among processes."""

    shard: Annotated[
        bool, switch("Under torchrun: divide the model among the processes, for one that does not fit (FSDP2).")
    ] = False

    def check(self) -> None:
        super().check()
        check_shard(self)


def check_shard(options: Any) -> None:
    """What looks at a whole weight, or at the code of the whole model, cannot be had of a model in shards."""
    if not getattr(options, "shard", False):
        return
    for wanted, option in (
        (options.compile, "--compile"),
        (options.sam not in ("auto", 0), f"--sam {options.sam}"),
        (options.optimizer == "muon", "--optimizer muon"),
        (getattr(options, "freeze", "none") != "none", f"--freeze {getattr(options, 'freeze', 'none')}"),
        (getattr(options, "lora", None) is not None, f"--lora {getattr(options, 'lora', None)}"),
    ):
        if wanted:
            raise VitrailError(f"--shard and {option} do not go together: leave one of them out")


@dataclass(frozen=True, kw_only=True)
class BatchOptions(Block):
    """How much a step sees."""

    renamed: ClassVar[Mapping[str, str]] = {"batch": "batch_size"}

    batch_size: Annotated[int | Auto, COUNT, integer("Images per step.", group=IMAGES)] = "auto"


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Block):
    """How files are read."""

    workers: Annotated[int | Auto, Range(ge=0), integer("Processes that read images.", group=IMAGES)] = "auto"
    bad_files: Annotated[
        float, Range(ge=0, le=1), Parameter(group=IMAGES, help="Stop if more than this share of the images cannot be read.")
    ] = 0.05


@dataclass(frozen=True, kw_only=True)
class ChannelOptions(Block):
    """Gray or color."""

    in_channels: Annotated[int | Auto, CHANNELS, integer("1 gray, 3 color; auto: as the images are.", group=IMAGES)] = "auto"


@dataclass(frozen=True, kw_only=True)
class SizeOptions(Block):
    """The size of images."""

    image_size: Annotated[
        tuple[int, ...] | None,
        COUNT,
        several("N, or H W, in pixels; by default that of the images, 224 at most.", group=IMAGES),
    ] = None

    def check(self) -> None:
        super().check()
        if self.image_size is not None and len(self.image_size) not in (1, 2):
            raise VitrailError(f"--image-size takes N or H W, got {len(self.image_size)} numbers")

    def normalize(self) -> Any:
        found = super().normalize()
        return replace(found, image_size=as_size(found.image_size))


@dataclass(frozen=True, kw_only=True)
class ImageOptions(ReadingOptions, ChannelOptions, SizeOptions, BatchOptions):
    """Images of one size."""


@dataclass(frozen=True, kw_only=True)
class CacheOptions(Block):
    """Decoded images that are read again every epoch."""

    cache: Annotated[
        Literal["auto", "off", "memory", "disk"],
        Parameter(group=IMAGES, help="Where decoded images are stored for the next epoch; auto: in memory if all fit."),
    ] = "auto"
    cache_gb: Annotated[
        float | Auto,
        Range(gt=0),
        Parameter(group=IMAGES, help="How much room the cache may take; auto: a quarter of the memory."),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class ValSplitOptions(Block):
    """How validation is split off."""

    renamed: ClassVar[Mapping[str, str]] = {"val_share": "val_split"}

    val_split: Annotated[
        float | None,
        Range(gt=0, lt=1),
        Parameter(
            help="Take this share of train and val together for validation; by default the data's own val, else 10 % of train."
        ),
    ] = None
