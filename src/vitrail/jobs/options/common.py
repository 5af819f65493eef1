"""What every training is told: data, model, how long, where."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.jobs.options.values import Auto, several, whole


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Of every task, but for a few that say so."""

    data: Annotated[
        str,
        Parameter(
            help="A folder of pictures, a list or other file (see the docs), or a built-in set: digits, shapes; for text a folder "
            "or a file, or copy, reverse, sort."
        ),
    ]
    task: Annotated[
        Literal[
            "classify",
            "translate",
            "language",
            "caption",
            "igpt",
            "mae",
            "beit",
            "dvae",
            "dino",
            "moco",
            "restore",
            "mri",
            "segment",
            "detect",
            "segment3d",
        ],
        Parameter(help="What to learn."),
    ] = "classify"
    model: Annotated[str, Parameter(help="A name from `vitrail models`; auto: by the size and count of the data.")] = "auto"
    epochs: Annotated[int | Auto, Parameter(converter=whole, help="Passes over the training data.")] = "auto"
    minutes: Annotated[float | None, Parameter(help="A time budget instead of epochs; the schedule fits itself to it.")] = None
    batch: Annotated[int | Auto, Parameter(converter=whole, help="Pictures a step.")] = "auto"
    lr: Annotated[
        float | Auto | None, Parameter(help="Peak learning rate; auto: found by a range test; by default the recipe's.")
    ] = None
    seed: Annotated[int, Parameter(converter=whole, help="Decides every random number of the run.")] = 0
    image_size: Annotated[
        tuple[int, ...] | None,
        several("N, or H W, in pixels; by default that of the pictures, 224 at most."),
    ] = None
    in_channels: Annotated[int | Auto, Parameter(converter=whole, help="1 gray, 3 color; auto: as the pictures are.")] = "auto"
    pack: Annotated[
        bool,
        Parameter(
            help="Keep each picture's aspect, with at most the pixels of --image-size; as many share a step as have the tokens of "
            "--batch full ones.",
            negative="",
        ),
    ] = False
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
    merge: Annotated[
        int | None,
        Parameter(
            converter=whole,
            help="Tokens that each block of a vit merges into others, for speed; by default as the model has it.",
        ),
    ] = None
    recipe: Annotated[
        Literal["auto", "tiny", "small", "medium", "large", "finetune", "plain"],
        Parameter(help="How to learn; auto: by the number of pictures or sentences, finetune with --weights."),
    ] = "auto"
    workers: Annotated[int | Auto, Parameter(converter=whole, help="Processes that read pictures.")] = "auto"
    val_share: Annotated[
        float | None,
        Parameter(
            help="Take this share of train and val together for validation, in (0, 1); by default the data's own val, else 10 % of train."
        ),
    ] = None
    balance: Annotated[
        Literal["none", "weights", "sampling"],
        Parameter(help="For classes of unequal size: weigh the loss, or draw every class equally often."),
    ] = "none"
    bad_files: Annotated[float, Parameter(help="Stop if more than this share of the pictures cannot be read.")] = 0.05
    cache: Annotated[
        Literal["auto", "off", "memory", "disk"],
        Parameter(help="Where decoded pictures are kept for the next epoch; auto: in memory if all fit."),
    ] = "auto"
    cache_gb: Annotated[float | Auto, Parameter(help="How much room the cache may take; auto: a quarter of the memory.")] = (
        "auto"
    )
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"
    precision: Annotated[Literal["fp32", "bf16"], Parameter(help="Arithmetic of the forward pass.")] = "fp32"
    accumulate: Annotated[
        int, Parameter(converter=whole, help="Cut each batch into so many parts, to need less memory; the step is the same.")
    ] = 1
    checkpointing: Annotated[
        bool,
        Parameter(help="Compute blocks twice instead of keeping what they made: less memory, a third slower.", negative=""),
    ] = False
    compile: Annotated[bool, Parameter(help="Compile the model first.", negative="")] = False
    shard: Annotated[
        bool,
        Parameter(help="Under torchrun: divide the model among the processes, for one that does not fit (FSDP2).", negative=""),
    ] = False
    tensorboard: Annotated[bool, Parameter(help="Write event files for TensorBoard too (extra: logs).", negative="")] = False
    out: Annotated[str | None, Parameter(help="The run's folder; by default runs/<task>/<data>, numbered.")] = None
    resume: Annotated[bool, Parameter(help="Go on with the run in --out, bit for bit.", negative="")] = False
    weights: Annotated[
        str | None, Parameter(help="Start from weights: a run, a model folder, a hub id, or .safetensors of another library.")
    ] = None
