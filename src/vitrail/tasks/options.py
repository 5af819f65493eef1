"""Options: what every task accepts, blocks that tasks compose their own from, and one check for all. No torch here.

A task's class is `class Options(<blocks>, CommonOptions)` with its own fields; the range, the choices and the help of an option stand
beside its field. `auto` is replaced when the options are resolved, and config.yaml says by what.
"""

import math
import typing
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from cyclopts import CoercionError, Group, Parameter, Token, convert

from vitrail.errors import VitrailError, VitrailWarning, check_choice, suggestion
from vitrail.records import from_record, to_record

T = TypeVar("T")
Auto = Literal["auto"]
RecipeName = Literal["auto", "tiny", "small", "medium", "large", "finetune", "plain"]
NOT_STORED = ("out", "resume")  # where and how a run is started, not what it is

TASK = Group("Options of this task", sort_key=1)
IMAGES = Group("Images", sort_key=2)
TEXT = Group("Text", sort_key=3)
RECIPE = Group("Recipe", help="Each is the recipe's unless given.", sort_key=4)
AUGMENTATION = Group("Augmentation", help="Each is the recipe's unless given.", sort_key=5)


# ------------------------------------------------------------------------------------------------------------------------- values


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that an option takes."""

    ge: float | int = -math.inf
    gt: float | int = -math.inf
    le: float | int = math.inf
    lt: float | int = math.inf

    def check(self, option: str, number: float | int) -> None:
        if (self.ge, self.lt) == (0, 1):
            if not 0 <= number < 1:
                raise VitrailError(f"{option} must be in [0, 1), got {number}")
        elif (self.gt, self.lt) == (0, 1):
            if not 0 < number < 1:
                raise VitrailError(f"{option} must be between 0 and 1, got {number:g}")
        elif number < self.ge:
            raise VitrailError(f"{option} must be at least {self.ge:g}, got {number}")
        elif number <= self.gt:
            raise VitrailError(f"{option} must be above {self.gt:g}, got {number}")
        elif number > self.le:
            raise VitrailError(f"{option} must be at most {self.le if self.le > 1e9 else format(self.le, 'g')}, got {number}")
        elif number >= self.lt:
            raise VitrailError(f"{option} must be below {self.lt:g}, got {number}")

    def __str__(self) -> str:
        """As help shows it."""
        low = f"{'[' if self.ge > -math.inf else '('}{max(self.ge, self.gt):g}"
        high = f"{min(self.le, self.lt):g}{']' if self.le < math.inf else ')'}"
        if max(self.ge, self.gt) == -math.inf:
            return f"at most {self.le:g}" if self.le < math.inf else f"below {self.lt:g}"
        if min(self.le, self.lt) > 1e9:
            return f"at least {self.ge:g}" if self.ge > -math.inf else f"above {self.gt:g}"
        return f"in {low}, {high}"


@dataclass(frozen=True, slots=True)
class Choices:
    """The numbers that an option takes, where they are few."""

    words: Mapping[int, str]  # number -> what it means

    def check(self, option: str, number: float | int) -> None:
        if number not in self.words:
            choices = " or ".join(f"{number} ({word})" for number, word in self.words.items())
            raise VitrailError(f"{option} must be {choices}, got {number}")


SHARE = Range(ge=0, lt=1)
COUNT = Range(ge=1)
SEED = Range(ge=0, le=2**63 - 1)  # torch's generators take no more
CHANNELS = Choices({1: "gray", 3: "color"})


def whole(kind: Any, tokens: Sequence[Token]) -> Any:
    """A converter for whole numbers: cyclopts alone would round 1.5 to 2."""
    for token in tokens:
        if "." in token.value:
            raise CoercionError(token=token, target_type=int)
    return convert(kind, tokens)


def integer(help: str, **more: Any) -> Parameter:
    """A whole number."""
    return Parameter(converter=whole, help=help, **more)


def several(help: str, **more: Any) -> Parameter:
    """One or more whole numbers."""
    return Parameter(converter=whole, consume_multiple=True, negative="", help=help, **more)


def switch(help: str, **more: Any) -> Parameter:
    """On if it is given."""
    return Parameter(negative="", help=help, **more)


def spell(name: str) -> str:
    """An option as people type it."""
    return f"--{name.replace('_', '-')}"


def absolute(source: str) -> str:
    """An existing path as it is called from any folder; names of built-in datasets and hub ids stay as they are."""
    from vitrail.data.opening import BUILT_IN

    path = Path(source).expanduser()
    return str(path.resolve()) if source not in BUILT_IN and path.exists() else source


def as_size(size: Sequence[int] | None) -> tuple[int, int] | None:
    """(h, w), of N or H W."""
    return None if size is None else (size[0], size[-1])


# ------------------------------------------------------------------------------------------------------------------ every task has


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some options with their rules. A class is made of blocks; each hands `check` and `normalize` on."""

    renamed: ClassVar[Mapping[str, str]] = {}  # earlier key -> present key; those of all blocks count
    retired: ClassVar[Mapping[str, Any]] = {}  # key of older config.yaml -> the value that says nothing
    paths: ClassVar[tuple[str, ...]] = ()  # options that may name a file; those of all blocks count

    def check(self) -> None:
        """Rules between fields: a VitrailError for what cannot be."""

    def normalize(self) -> Any:
        """The same wishes in one form each, so that they can be stored, and compared with stored ones."""
        return self


@dataclass(frozen=True, kw_only=True)
class CommonOptions(Block):
    """What every task accepts."""

    paths: ClassVar[tuple[str, ...]] = ("data", "weights")
    of_weights: ClassVar[tuple[str, ...]] = ("model", "position", "position_where", "attention", "image_size", "in_channels")
    # options that cannot be given beside --weights, which bring their own

    data: Annotated[
        str, Parameter(help="A folder, a list or another file (see the docs), or a built-in dataset: digits, shapes.")
    ]
    task: Annotated[str, Parameter(help="What to learn: see the list below.")] = "classify"
    model: Annotated[str, Parameter(help="A name from `vitrail models`; auto: by the size and number of the data.")] = "auto"
    weights: Annotated[
        str | None, Parameter(help="Start from weights: a run, a model folder, a hub id, or .safetensors of another library.")
    ] = None
    epochs: Annotated[int | Auto, COUNT, integer("Passes over the training data.")] = "auto"
    minutes: Annotated[
        float | None, Range(gt=0), Parameter(help="A time budget instead of epochs; the schedule fits itself to it.")
    ] = None
    lr: Annotated[
        float | Auto | None,
        Range(gt=0),
        Parameter(help="Peak learning rate; auto: found by a range test; by default the recipe's."),
    ] = None
    recipe: Annotated[
        RecipeName,
        Parameter(help="How to learn; auto: by the amount of data, finetune with --weights."),
    ] = "auto"
    seed: Annotated[int, SEED, integer("Decides every random number of the run.")] = 0
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"
    precision: Annotated[Literal["fp32", "bf16"], Parameter(help="Arithmetic of the forward pass.")] = "fp32"
    accumulate: Annotated[
        int, COUNT, integer("Cut each batch into so many parts, to need less memory; the step is the same.")
    ] = 1
    checkpointing: Annotated[
        bool, switch("Compute blocks twice instead of storing their activations: less memory, a third slower.")
    ] = False
    compile: Annotated[bool, switch("Compile the model first.")] = False
    tensorboard: Annotated[bool, switch("Write event files for TensorBoard too (extra: logs).")] = False
    out: Annotated[str | None, Parameter(help="The run's folder; by default runs/<task>/<data>, numbered.")] = None
    resume: Annotated[bool, switch("Continue the run in --out, bit for bit.")] = False

    def check(self) -> None:
        super().check()
        if self.minutes is not None and self.epochs != "auto":
            raise VitrailError("--minutes and --epochs are two ways to say how long: give one of them")
        if self.weights is not None:
            for name in self.of_weights:
                if getattr(self, name, None) not in (None, "auto"):
                    raise VitrailError(f"--weights brings its own model: {spell(name)} cannot be given beside it")

    def normalize(self) -> Any:
        found = super().normalize()
        named = {name: getattr(found, name) for kind in type(self).__mro__ for name in vars(kind).get("paths", ())}
        return replace(found, **{name: absolute(value) for name, value in named.items() if value})


# ------------------------------------------------------------------------------------------------------------------------- blocks


@dataclass(frozen=True, kw_only=True)
class PartOptions(Block):
    """Parts of a model that are chosen by name."""

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
    attention: Annotated[str | None, Parameter(help="The attention kernel: softmax.")] = None

    def check(self) -> None:
        super().check()
        from vitrail.models.parts import position_where

        if self.position is not None:
            position_where(self.position, self.position_where)  # and that there is such a position
        if self.attention is not None:
            check_choice("attention", self.attention, attention_choices(getattr(self, "model", "auto")))

    def normalize(self) -> Any:
        from vitrail.models.parts import position_name

        found = super().normalize()
        return found if found.position is None else replace(found, position=position_name(found.position))


def attention_choices(model: str) -> Sequence[str]:
    """The kernels, or what the config of a model of this name has for choices: a recurrent one's are others."""
    from vitrail.models.catalogue import model_config
    from vitrail.models.parts import KERNELS

    kinds: dict[str, Any] = {} if model == "auto" else {field.name: field.type for field in fields(model_config(model)[1])}
    hint = kinds.get("attention")
    literals = [kind for kind in (hint, *typing.get_args(hint)) if typing.get_origin(kind) is Literal]
    return tuple(choice for kind in literals for choice in typing.get_args(kind)) or tuple(KERNELS)


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
    optimizer: Annotated[
        Literal["auto", "adamw", "muon", "sgd", "lamb"], Parameter(group=RECIPE, help="What moves the weights.")
    ] = "auto"


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
        (options.optimizer in ("lamb", "muon"), f"--optimizer {options.optimizer}"),
        (getattr(options, "freeze", "none") != "none", f"--freeze {getattr(options, 'freeze', 'none')}"),
    ):
        if wanted:
            raise VitrailError(f"--shard and {option} do not go together: leave one of them out")


@dataclass(frozen=True, kw_only=True)
class FreezeOptions(Block):
    """Weights that stay."""

    freeze: Annotated[
        Literal["none", "encoder"], Parameter(group=TASK, help="What of the model stays as --weights has it.")
    ] = "none"

    def check(self) -> None:
        super().check()
        if self.freeze != "none" and getattr(self, "weights", None) is None:
            raise VitrailError(f"--freeze {self.freeze} keeps what --weights brings: give --weights too")


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


@dataclass(frozen=True, kw_only=True)
class FlipOptions(Block):
    """Mirror images."""

    flip: Annotated[
        bool | None,
        Parameter(group=AUGMENTATION, help="Mirror left and right; by default color images only.", negative="--no-flip"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RotateZoomOptions(FlipOptions):
    """Move images, but not away from their place."""

    rotate: Annotated[float | Auto, Range(ge=0), Parameter(group=AUGMENTATION, help="Rotate by up to so many degrees.")] = (
        "auto"
    )
    zoom: Annotated[float | Auto, SHARE, Parameter(group=AUGMENTATION, help="Zoom by up to this factor more or less.")] = "auto"


@dataclass(frozen=True, kw_only=True)
class MovementOptions(RotateZoomOptions):
    """Move images."""

    shift: Annotated[float | Auto, SHARE, Parameter(group=AUGMENTATION, help="Move by up to this share of a side.")] = "auto"


@dataclass(frozen=True, kw_only=True)
class AugmentationOptions(MovementOptions):
    """Move images, and change their colors."""

    cutout: Annotated[float | Auto, SHARE, Parameter(group=AUGMENTATION, help="Side of a square to hide, as a share.")] = "auto"
    operations: Annotated[
        int | Auto, Range(ge=0), integer("RandAugment: how many changes an image gets.", group=AUGMENTATION)
    ] = "auto"
    magnitude: Annotated[
        float | Auto, Range(ge=0, le=10), Parameter(group=AUGMENTATION, help="RandAugment: how strong they are.")
    ] = "auto"
    erase: Annotated[
        float | Auto, Range(ge=0, le=1), Parameter(group=AUGMENTATION, help="Share of images with a rectangle erased.")
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class JitterOptions(Block):
    """Change colors."""

    renamed: ClassVar[Mapping[str, str]] = {"jitter": "color_jitter"}

    color_jitter: Annotated[
        float | Auto,
        SHARE,
        Parameter(group=AUGMENTATION, help="Change brightness, contrast and saturation by up to this share."),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class PretrainingOptions(OptimizerOptions, CacheOptions, ImageOptions):
    """Images without labels, of all methods of `vitrail pretrain`."""

    retired: ClassVar[Mapping[str, Any]] = {
        "balance": "none", "smoothing": 0.0, "mixup": 0.0, "cutmix": 0.0, "token_keep": 1.0, "progressive": 1.0, "shard": False,
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MaskOptions(Block):
    """Patches that the model does not see."""

    renamed: ClassVar[Mapping[str, str]] = {"hide": "mask_ratio"}

    mask_ratio: Annotated[
        float | Auto,
        Range(gt=0, lt=1),
        Parameter(group=TASK, help="Share of the patches that the model does not see; auto: as published."),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class ViewOptions(Block):
    """Crops of an image that a student and a teacher, an average of the student, compare. They are augmented in ways of their own."""

    retired: ClassVar[Mapping[str, Any]] = {
        "shift": 0.0, "rotate": 0.0, "zoom": 0.0, "cutout": 0.0, "operations": 0, "magnitude": 9.0, "erase": 0.0, "ema": 0.0,
        "sam": 0.0, "repeats": 1,
    }  # fmt: skip

    momentum: Annotated[
        float | Auto,
        Range(ge=0, le=1),
        Parameter(group=TASK, help="Of the teacher's average of the student, at the beginning."),
    ] = "auto"
    temperature: Annotated[float | Auto, Range(gt=0), Parameter(group=TASK, help="Of the student's softmax.")] = "auto"
    knn_every: Annotated[
        int | Auto,
        Range(ge=0),
        integer("Measure the accuracy of nearest neighbors' labels each so many epochs; 0: never.", group=TASK),
    ] = "auto"


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
class BeamOptions(Block):
    """Beam search."""

    renamed: ClassVar[Mapping[str, str]] = {"beams": "num_beams"}

    num_beams: Annotated[int, COUNT, integer("Beams of the search that writes the outputs for test.", group=TEXT)] = 5


# --------------------------------------------------------------------------------------------------------------- a trained model's


@dataclass(frozen=True, kw_only=True)
class EvalOptions(Block):
    """What `vitrail eval` takes beside RUN, of every task."""

    renamed: ClassVar[Mapping[str, str]] = {"batch": "batch_size"}

    data: Annotated[str | None, Parameter(help="Other data than the run's own.")] = None
    split: Annotated[Literal["train", "val", "test"], Parameter(help="Which part of it.")] = "test"
    batch_size: Annotated[int, COUNT, integer("Images, or sentences, at a time.")] = 64
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"
    json: Annotated[bool, switch("Print the metrics as JSON.")] = False
    out: Annotated[str | None, Parameter(help="Write the predictions and report.html into this folder.")] = None


@dataclass(frozen=True, kw_only=True)
class ReadingEvalOptions(EvalOptions):
    """The same for images in files."""

    workers: Annotated[int | Auto, Range(ge=0), integer("Processes that read images.")] = "auto"
    bad_files: Annotated[
        float, Range(ge=0, le=1), Parameter(help="Stop if more than this share of the images cannot be read.")
    ] = 0.05


PROTOCOL = Group(
    "Features", help="With --protocol: what the features of images are good for, with few labels. --out continues.", sort_key=9
)


NOT_OF_PROTOCOL = ("split", "merge", "window", "flip_test", "scales", "ignore_index")  # of eval, that say nothing beside it


@dataclass(frozen=True, kw_only=True)
class ProtocolEvalOptions(ReadingEvalOptions):
    """The same for models whose features can be read: with --protocol, how well labels are predicted from them."""

    protocol: Annotated[
        str | None,
        Parameter(
            group=PROTOCOL,
            help="knn, linear, finetune, scratch, several with commas: predictions of neighbors and of a linear classifier on the model's "
            "features, training from its weights, and from new ones.",
        ),
    ] = None
    labels: Annotated[
        str | None, Parameter(group=PROTOCOL, help="Shares of the training labels, such as 0.01,0.1,1; by default 0.1,1.")
    ] = None
    seeds: Annotated[int, COUNT, integer("So many choices of the labelled images, and trainings.", group=PROTOCOL)] = 1
    epochs: Annotated[
        int | None,
        COUNT,
        integer("finetune, scratch: passes; by default those of the recipe for so many images.", group=PROTOCOL),
    ] = None

    def check(self) -> None:
        super().check()
        others = ("labels", "seeds", "epochs") if self.protocol is None else NOT_OF_PROTOCOL
        for name in others:
            default = next((field.default for field in fields(self) if field.name == name), None)
            if getattr(self, name, default) != default:
                rule = "needs --protocol" if self.protocol is None else "says nothing to --protocol"
                raise VitrailError(f"--{name} {getattr(self, name)} {rule}")


@dataclass(frozen=True, kw_only=True)
class PretrainingEvalOptions(ProtocolEvalOptions):
    """The same for models that were trained without labels, which predict nothing."""

    def check(self) -> None:
        super().check()
        if self.out is not None and self.protocol is None:
            raise VitrailError(
                "--out: pretraining gives no predictions to write; --protocol tells what its features are good for"
            )


@dataclass(frozen=True, kw_only=True)
class BeamEvalOptions(Block):
    """Beam search."""

    renamed: ClassVar[Mapping[str, str]] = {"beams": "num_beams"}

    num_beams: Annotated[int | None, COUNT, integer("Beams of the search; by default the run's.")] = None


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Block):
    """What `vitrail predict` takes beside RUN and files, of every task."""

    json: Annotated[bool, switch("Print the results as JSON.")] = False


@dataclass(frozen=True, kw_only=True)
class EnginePredictOptions(PredictOptions):
    """The same for models that other engines than torch can run."""

    engine: Annotated[
        Literal["auto", "torch", "compile", "onnxruntime", "openvino"],
        Parameter(help="What computes the predictions; auto: the fastest of those installed, measured once and remembered."),
    ] = "torch"


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(Block):
    """What `vitrail explain` takes beside RUN and files, of every task."""

    out: Annotated[str, Parameter(help="A new or empty folder for index.html and the figures.")]
    limit: Annotated[int, COUNT, integer("Of more images, or sentences, than this, so many are shown, evenly chosen.")] = 24


@dataclass(frozen=True, kw_only=True)
class SentenceExplainOptions(ExplainOptions):
    """The same for models that read text."""

    layer: Annotated[
        int | None, integer("Show this layer, from 0, or from -1 backwards; by default the one that tells most.")
    ] = None
    head: Annotated[
        int | Literal["mean"] | None,
        integer("One head, or the mean of all, the default beside --layer; else the one that tells most."),
    ] = None
    word: Annotated[int | None, integer("The number of a word, from 0; by default a pronoun, or the longest word.")] = None


# -------------------------------------------------------------------------------------------------------------- one check for all


def check(options: Any) -> None:
    """Each number within the range beside its field, then the rules between fields: for command line, Python and config.yaml alike."""
    hints = typing.get_type_hints(type(options), include_extras=True)
    for field in fields(options):
        value, option = getattr(options, field.name), spell(field.name)
        if value == "":
            raise VitrailError(f"{option} is empty")
        rules = [rule for rule in getattr(hints[field.name], "__metadata__", ()) if isinstance(rule, Range | Choices)]
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, str | bool) or not isinstance(number, int | float):
                continue
            if not math.isfinite(number):
                raise VitrailError(f"{option} must be a finite number, got {number}")
            for rule in rules:
                rule.check(option, number)
    options.check()


def renamed_of(kind: type[Any]) -> dict[str, str]:
    """Earlier key -> present key, of all blocks of a class."""
    return {old: new for base in reversed(kind.__mro__) for old, new in vars(base).get("renamed", {}).items()}


def retired_of(kind: type[Any]) -> dict[str, Any]:
    """Key that a class has no more -> the value that says nothing, of all its blocks."""
    return {old: value for base in reversed(kind.__mro__) for old, value in vars(base).get("retired", {}).items()}


def present_record(kind: type[Any], record: Mapping[str, Any], *, hint: bool) -> dict[str, Any]:
    """A record under present keys. With `hint` whoever wrote an earlier one reads a line about it."""
    renamed, retired, found = renamed_of(kind), retired_of(kind), dict[str, Any]()
    known = {field.name for field in fields(kind)}
    for name, value in record.items():
        key = renamed.get(name, name) if name not in known else name
        if name not in known and name in retired and value in ("auto", retired[name]):
            continue
        if key != name and hint:
            warnings.warn(VitrailWarning(f"{spell(name)} is now {spell(key)}"), stacklevel=4)
        if key in found:
            raise VitrailError(f"{spell(name)} and {spell(key)} are the same option: give one of them")
        found[key] = value
    return found


def read_record(kind: type[T], record: Mapping[str, Any], *, what: str, use: str = "train", hint: bool = False) -> T:
    """Options from a table, such as an older config.yaml: `what` names it in errors. An option of another task is refused with the names
    of the tasks that have it."""
    found = present_record(kind, record, hint=hint)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for name in found:
        if name not in known:
            raise VitrailError(f"{what}: {unknown_option(str(name), known, use=use, word=str(name))}")
    return from_record(kind, found, what=what)


def unknown_option(name: str, known: Sequence[str], *, use: str = "train", word: str | None = None) -> str:
    """Why an option, or the key `word` of a table, is refused: it is another task's, or nobody's."""
    from vitrail.tasks.registry import owners_of

    owners = owners_of(name, use)  # type: ignore[arg-type]
    if owners:
        tasks = " and ".join(", ".join(owners).rsplit(", ", 1))
        return f"{spell(name) if word is None else word} is an option of --task {tasks} only"
    if word is None:
        return f'unknown option "{spell(name)}"{suggestion(spell(name), map(spell, known))}'
    return f'unknown key "{word}"{suggestion(name, known)}'


def to_store(options: Any) -> dict[str, Any]:
    """What config.yaml says."""
    return {name: value for name, value in to_record(options).items() if name not in NOT_STORED}


def lay_over(options: T, given: Any) -> T:
    """The options of a run with those of a verb laid over them: where both have a field and the verb says something."""
    own = {field.name for field in fields(options)}  # type: ignore[arg-type]
    values = {
        f.name: getattr(given, f.name) for f in fields(given) if f.name in own and f.name not in ("out", "device", "data")
    }
    return replace(options, **{name: value for name, value in values.items() if value not in (None, "auto")})  # type: ignore[type-var]


def from_recipe(
    recipe: Mapping[str, Any], options: Any, *, without: Sequence[str] = ("lr", "batch_size", "batch_tokens")
) -> dict[str, Any]:
    """What a recipe says of the options that are `auto`."""
    return {name: value for name, value in recipe.items() if name not in without and getattr(options, name) == "auto"}
