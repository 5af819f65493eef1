"""The options of every command, as frozen dataclasses: the command line, config.yaml and Python share them. No torch here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import CoercionError, Group, Parameter, Token, convert

Auto = Literal["auto"]
RECIPE = Group("Recipe", help="Each is the recipe's unless given.", sort_key=2)
PIXELS = Group("Pixels", help="With `vitrail pretrain --method igpt`, which has --masked and --dropout too.", sort_key=4)
RESTORATION = Group("Restoration", help="With --task restore.", sort_key=5)
SEGMENTATION = Group("Segmentation", help="With --task segment; --jitter with --task detect too.", sort_key=10)
KSPACE = Group("Accelerated MRI", help="With --task mri.", sort_key=6)
VOLUMES = Group("Volumes", help="With --task segment3d; x points to the patient's right, y to the front, z up.", sort_key=6)
DISTILLATION = Group("Few labels", help="With --task classify: learn with a teacher, or from a part of the labels.", sort_key=7)
PRETRAINING = Group(
    "Pretraining",
    help="With `vitrail pretrain`; each says which methods have it. auto: as published, for small data.",
    sort_key=8,
)
PROTOCOL = Group(
    "Features", help="With --protocol: what the features of pictures are good for, with few labels. --out goes on.", sort_key=9
)
DETECTION = Group("Detection", help="With --task detect.", sort_key=11)
TEXT = Group("Text", help="With --task translate, language and caption.", sort_key=3)


def whole(kind: Any, tokens: Sequence[Token]) -> Any:
    """A converter for whole numbers: cyclopts alone would round 1.5 to 2."""
    for token in tokens:
        if "." in token.value:
            raise CoercionError(token=token, target_type=int)
    return convert(kind, tokens)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
class TrainOptions:
    """What `vitrail train` and `vt.train` take. `auto` is replaced by what it chose, and config.yaml says by what."""

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
        Parameter(
            converter=whole,
            consume_multiple=True,
            negative="",
            help="N, or H W, in pixels; by default that of the pictures, 224 at most.",
        ),
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
    weight_decay: Annotated[float | Auto, Parameter(group=RECIPE, help="Pull of the weights towards 0.")] = "auto"
    warmup: Annotated[float | Auto, Parameter(group=RECIPE, help="Share of the run in which the rate rises, in [0, 1).")] = (
        "auto"
    )
    schedule: Annotated[
        Literal["auto", "cosine", "inverse_sqrt", "constant"],
        Parameter(group=RECIPE, help="How the rate falls after the warmup."),
    ] = "auto"
    smoothing: Annotated[float | Auto, Parameter(group=RECIPE, help="Label smoothing, in [0, 1).")] = "auto"
    clip: Annotated[float | Auto, Parameter(group=RECIPE, help="Largest norm of the gradient.")] = "auto"
    drop_path: Annotated[float | Auto, Parameter(group=RECIPE, help="Stochastic depth of the last block, in [0, 1).")] = "auto"
    flip: Annotated[
        bool | None,
        Parameter(group=RECIPE, help="Mirror left and right; by default color pictures only.", negative="--no-flip"),
    ] = None
    shift: Annotated[float | Auto, Parameter(group=RECIPE, help="Move by up to this share of a side, in [0, 1).")] = "auto"
    rotate: Annotated[float | Auto, Parameter(group=RECIPE, help="Turn by up to so many degrees.")] = "auto"
    zoom: Annotated[float | Auto, Parameter(group=RECIPE, help="Zoom by up to this factor more or less, in [0, 1).")] = "auto"
    cutout: Annotated[float | Auto, Parameter(group=RECIPE, help="Side of a square to hide, as a share, in [0, 1).")] = "auto"
    operations: Annotated[
        int | Auto, Parameter(converter=whole, group=RECIPE, help="RandAugment: how many changes a picture gets.")
    ] = "auto"
    magnitude: Annotated[float | Auto, Parameter(group=RECIPE, help="RandAugment: how strong they are, 0 to 10.")] = "auto"
    erase: Annotated[float | Auto, Parameter(group=RECIPE, help="Share of pictures with a rectangle erased.")] = "auto"
    mixup: Annotated[float | Auto, Parameter(group=RECIPE, help="Blend pictures in pairs: alpha of the shares; 0: not.")] = (
        "auto"
    )
    cutmix: Annotated[float | Auto, Parameter(group=RECIPE, help="Paste a rectangle of another picture: alpha; 0: not.")] = (
        "auto"
    )
    repeats: Annotated[
        int | Auto, Parameter(converter=whole, group=RECIPE, help="Times each picture comes in a batch, changed each time.")
    ] = "auto"
    token_keep: Annotated[float | Auto, Parameter(group=RECIPE, help="Share of the patches seen in training, in (0, 1].")] = (
        "auto"
    )
    progressive: Annotated[
        float | Auto, Parameter(group=RECIPE, help="Begin with pictures of this share of the side, in (0, 1]; they grow.")
    ] = "auto"
    optimizer: Annotated[
        Literal["auto", "adamw", "muon", "sgd", "lamb"], Parameter(group=RECIPE, help="What moves the weights.")
    ] = "auto"
    layer_decay: Annotated[float | Auto, Parameter(group=RECIPE, help="Factor on the rate from a block to the one before.")] = (
        "auto"
    )
    ema: Annotated[float | Auto, Parameter(group=RECIPE, help="Decay of the average of the weights, in [0, 1); 0: none.")] = (
        "auto"
    )
    sam: Annotated[float | Auto, Parameter(group=RECIPE, help="Radius of sharpness-aware minimization; 0: none.")] = "auto"
    source: Annotated[
        str | None, Parameter(group=TEXT, help="Language to translate from, as the files end: de for train.de.")
    ] = None
    target: Annotated[str | None, Parameter(group=TEXT, help="Language to translate to.")] = None
    vocabulary: Annotated[
        int | Auto, Parameter(converter=whole, group=TEXT, help="Pieces of words to tell apart; auto: by the size of the data.")
    ] = "auto"
    lower: Annotated[bool, Parameter(group=TEXT, help="Write everything in lower case.", negative="")] = False
    bytes: Annotated[
        bool,
        Parameter(
            group=TEXT, help="Spell letters that train does not have by their bytes, 256 of the vocabulary.", negative=""
        ),
    ] = False
    longest: Annotated[
        int | Auto, Parameter(converter=whole, group=TEXT, help="Tokens of a sentence, at most; longer ones are left out.")
    ] = "auto"
    batch_tokens: Annotated[
        int | Auto, Parameter(converter=whole, group=TEXT, help="Tokens a step, padding included; the recipe's unless given.")
    ] = "auto"
    dropout: Annotated[
        float | Auto, Parameter(group=TEXT, help="Share of the numbers set to 0 in training; the recipe's unless given.")
    ] = "auto"
    merge_dropout: Annotated[
        float | Auto,
        Parameter(
            group=TEXT, help="Share of merges left out, so that words are cut now so, now so; the recipe's unless given."
        ),
    ] = "auto"
    beams: Annotated[
        int, Parameter(converter=whole, group=TEXT, help="Beams of the search that writes the test's answers.")
    ] = 5
    masked: Annotated[
        bool, Parameter(group=TEXT, help="Language, pixels: fill in what is hidden instead of going on.", negative="")
    ] = False
    colors: Annotated[
        int | Auto,
        Parameter(
            converter=whole, group=PIXELS, help="Of the palette, at most; auto: the model's. Fewer if the pictures have fewer."
        ),
    ] = "auto"
    degrade: Annotated[
        str | None,
        Parameter(
            group=RESTORATION,
            help="What to undo: srN (N of 2, 3, 4, 8 times smaller), noiseS (of S levels of 255), jpegQ (of quality Q), realN (blur, "
            "noise, JPEG and N times smaller).",
        ),
    ] = None
    patch_size: Annotated[
        int | Auto, Parameter(converter=whole, group=RESTORATION, help="Side of the patches that the model is given.")
    ] = "auto"
    patches: Annotated[
        int | Auto,
        Parameter(converter=whole, group=RESTORATION, help="Of each picture, an epoch; auto: some thousands in all."),
    ] = "auto"
    head: Annotated[
        str | None,
        Parameter(
            group=SEGMENTATION,
            help="What makes masks of the maps of --model, an encoder: setr_naive, setr_pup, setr_mla, linear, mask, upernet, trans2seg.",
        ),
    ] = None
    loss: Annotated[
        Literal["auto", "ce", "dice", "focal", "ce+dice"],
        Parameter(group=SEGMENTATION, help="Cross-entropy, Dice, focal; auto: ce."),
    ] = "auto"
    class_weights: Annotated[
        Literal["none", "balanced"],
        Parameter(group=SEGMENTATION, help="balanced: pixels of rare classes count more, by median frequency."),
    ] = "none"
    jitter: Annotated[
        float | Auto,
        Parameter(group=SEGMENTATION, help="Change brightness, contrast and saturation by up to this share, in [0, 1)."),
    ] = "auto"
    acceleration: Annotated[float, Parameter(group=KSPACE, help="One line of k-space in so many is measured.")] = 4.0
    mask: Annotated[Literal["random", "equispaced", "density"], Parameter(group=KSPACE, help="Which lines they are.")] = (
        "random"
    )
    center: Annotated[
        float | Auto,
        Parameter(group=KSPACE, help="Share of the lines, in the middle, that is always measured; auto: 0.32 of them."),
    ] = "auto"
    consistency: Annotated[
        Literal["none", "hard", "sense"],
        Parameter(group=KSPACE, help="Keep the measured lines (hard), or fit the picture to those of all coils (sense)."),
    ] = "none"
    objective: Annotated[
        Literal["supervised", "equivariant"],
        Parameter(group=KSPACE, help="Learn from scans of all lines, or from accelerated ones alone (equivariant imaging)."),
    ] = "supervised"
    slices: Annotated[
        int | None, Parameter(converter=whole, group=KSPACE, help="Learn from so many slices, evenly chosen; by default all.")
    ] = None
    rows: Annotated[
        int | None,
        Parameter(converter=whole, group=KSPACE, help="Learn from bands of so many rows; by default from whole slices."),
    ] = None
    scalp: Annotated[
        bool, Parameter(group=KSPACE, help="Simulate a skull and a scalp around a brain that comes without.", negative="")
    ] = False
    queries: Annotated[
        int | Auto,
        Parameter(
            converter=whole, group=DETECTION, help="Objects to look for in a picture; auto: twice as many as one has at most."
        ),
    ] = "auto"
    denoising: Annotated[
        int | Auto,
        Parameter(
            converter=whole,
            group=DETECTION,
            help="Queries made of objects with noise, to learn from too; 0: none; auto: the model's.",
        ),
    ] = "auto"
    least_window: Annotated[
        float | Auto,
        Parameter(
            group=DETECTION, help="Half of the time see a window of at least this share of each side, in (0, 1]; 1: never."
        ),
    ] = "auto"
    turns: Annotated[
        bool,
        Parameter(
            group=DETECTION, help="Turn by quarters, and mirror top and bottom: for pictures without an up.", negative=""
        ),
    ] = False
    crop: Annotated[
        tuple[int, ...] | None,
        Parameter(
            converter=whole,
            consume_multiple=True,
            negative="",
            group=VOLUMES,
            help="X Y Z, or N: voxels that the model is given at a time; by default the model's.",
        ),
    ] = None
    spacing: Annotated[
        tuple[float, ...] | None,
        Parameter(
            consume_multiple=True, negative="", group=VOLUMES, help="X Y Z, or N: edges of a voxel in mm; by default kept."
        ),
    ] = None
    window_level: Annotated[
        tuple[float, float] | None,
        Parameter(
            negative="",
            allow_leading_hyphen=True,
            group=VOLUMES,
            help="LOW HIGH: intensities that become 0 and 1; by default nearly all that labelled voxels of train have.",
        ),
    ] = None
    foreground: Annotated[
        float, Parameter(group=VOLUMES, help="Share of the crops that is drawn around a labelled voxel, in [0, 1].")
    ] = 0.67
    divide_axis: Annotated[
        Literal["x", "y", "z"] | None,
        Parameter(group=VOLUMES, help="Divide every volume along an axis into train, val and test; one or two are, along z."),
    ] = None
    overlap: Annotated[
        float,
        Parameter(group=VOLUMES, help="Share of a window that the next one sees again where volumes are scored, in [0, 1)."),
    ] = 0.5
    labels: Annotated[
        float, Parameter(group=DISTILLATION, help="Share of the training pictures to learn from, of every class alike.")
    ] = 1.0
    freeze: Annotated[
        Literal["none", "encoder"], Parameter(group=DISTILLATION, help="What of the model stays as --weights has it.")
    ] = "none"
    teacher: Annotated[
        str | None, Parameter(group=DISTILLATION, help="A run or model whose answers are learned from too (DeiT).")
    ] = None
    distill: Annotated[
        Literal["hard", "soft"],
        Parameter(group=DISTILLATION, help="Learn the teacher's likeliest class, or its probabilities."),
    ] = "hard"
    distill_share: Annotated[
        float | None,
        Parameter(
            group=DISTILLATION, help="Weight of the teacher's answer in the loss, in [0, 1]; by default 0.5 hard, 0.1 soft."
        ),
    ] = None
    distill_temperature: Annotated[
        float | None,
        Parameter(group=DISTILLATION, help="By which logits are divided where probabilities are learned; by default 3."),
    ] = None
    hide: Annotated[
        float | Auto,
        Parameter(group=PRETRAINING, help="mae, beit: share of the patches that the model does not see, in (0, 1)."),
    ] = "auto"
    decoder_depth: Annotated[int | Auto, Parameter(converter=whole, group=PRETRAINING, help="mae: blocks of the decoder.")] = (
        "auto"
    )
    decoder_width: Annotated[int | Auto, Parameter(converter=whole, group=PRETRAINING, help="mae: its width.")] = "auto"
    mask_tokens: Annotated[
        Literal["decoder", "encoder"],
        Parameter(
            group=PRETRAINING, help="mae: where tokens stand for hidden patches; in the encoder too is the slow control."
        ),
    ] = "decoder"
    plain_pixels: Annotated[
        bool,
        Parameter(group=PRETRAINING, help="mae: predict pixels as they are, not normalized patch by patch.", negative=""),
    ] = False
    tokenizer: Annotated[
        str | None,
        Parameter(group=PRETRAINING, help="beit: the run of `vitrail pretrain --method dvae` whose codes are predicted."),
    ] = None
    codes: Annotated[
        int | Auto, Parameter(converter=whole, group=PRETRAINING, help="dvae: words of the visual vocabulary.")
    ] = "auto"
    views: Annotated[
        int | Auto,
        Parameter(converter=whole, group=PRETRAINING, help="dino: small crops of a picture, beside the two large ones."),
    ] = "auto"
    prototypes: Annotated[
        int | Auto, Parameter(converter=whole, group=PRETRAINING, help="dino: what teacher and student must agree on.")
    ] = "auto"
    momentum: Annotated[
        float | Auto, Parameter(group=PRETRAINING, help="dino, moco: of the teacher's average of the student, to begin with.")
    ] = "auto"
    temperature: Annotated[
        float | Auto, Parameter(group=PRETRAINING, help="dino, moco: of the student's softmax; dvae: of Gumbel's, in the end.")
    ] = "auto"
    teacher_temperature: Annotated[
        float | Auto, Parameter(group=PRETRAINING, help="dino: of the teacher's softmax; lower is sharper.")
    ] = "auto"
    knn_every: Annotated[
        int | Auto,
        Parameter(
            converter=whole,
            group=PRETRAINING,
            help="dino, moco: ask for the nearest neighbors' labels each so many epochs; 0: never.",
        ),
    ] = "auto"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
class EvalOptions:
    """What `vitrail eval` takes beside RUN."""

    data: Annotated[str | None, Parameter(help="Other data than the run's own.")] = None
    split: Annotated[Literal["train", "val", "test"], Parameter(help="Which part of it.")] = "test"
    batch: Annotated[int, Parameter(converter=whole, help="Pictures, or sentences, at a time.")] = 64
    beams: Annotated[int | None, Parameter(converter=whole, help="Of text: beams of the search; by default the run's.")] = None
    workers: Annotated[int | Auto, Parameter(converter=whole, help="Processes that read pictures.")] = "auto"
    bad_files: Annotated[float, Parameter(help="Stop if more than this share of the pictures cannot be read.")] = 0.05
    degrade: Annotated[str | None, Parameter(help="Of a restorer: another damage than it learned to undo, such as sr2.")] = None
    window: Annotated[
        tuple[int, int] | None,
        Parameter(converter=whole, negative="", help="Of a segmenter: H W of windows that slide over larger pictures."),
    ] = None
    flip_test: Annotated[bool, Parameter(help="Of a segmenter: ask about the mirror image too.", negative="")] = False
    scales: Annotated[
        tuple[float, ...] | None,
        Parameter(consume_multiple=True, negative="", help="Of a segmenter: ask at several sizes, such as 0.75 1 1.25."),
    ] = None
    merge: Annotated[
        int | None,
        Parameter(converter=whole, help="Of a vit: tokens that each block merges into others; by default the run's."),
    ] = None
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"
    json: Annotated[bool, Parameter(help="Print the metrics as JSON.", negative="")] = False
    out: Annotated[str | None, Parameter(help="Write predictions.csv and report.html into this folder.")] = None
    protocol: Annotated[
        str | None,
        Parameter(
            group=PROTOCOL,
            help="knn, linear, finetune, scratch, several with commas: neighbors' and a linear reader's answers by the model's features, "
            "training from its weights, and from new ones.",
        ),
    ] = None
    labels: Annotated[
        str | None,
        Parameter(group=PROTOCOL, help="Shares of the training labels, such as 0.01,0.1,1; by default 0.1,1."),
    ] = None
    seeds: Annotated[
        int, Parameter(converter=whole, group=PROTOCOL, help="So many choices of the labelled pictures, and trainings.")
    ] = 1
    epochs: Annotated[
        int | None,
        Parameter(
            converter=whole,
            group=PROTOCOL,
            help="finetune, scratch: passes; by default those of the recipe for so many pictures.",
        ),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainOptions:
    """What `vitrail explain` takes beside RUN and pictures, or sentences."""

    out: Annotated[str, Parameter(help="A new or empty folder for index.html and the figures.")]
    method: Annotated[
        str,
        Parameter(help="auto, relevance, rollout, attention, pooling, gradient or occlusion; auto: the best the model has."),
    ] = "auto"
    layer: Annotated[
        int | None,
        Parameter(converter=whole, help="Show the heads of this layer, from 0, or from -1 backwards; by default every layer."),
    ] = None
    head: Annotated[
        int | Literal["mean", "max", "min"] | None,
        Parameter(converter=whole, help="One head, or all together; by default their mean, with --layer each of them."),
    ] = None
    query: Annotated[
        tuple[int, int] | None,
        Parameter(converter=whole, negative="", help="ROW COL of a patch: what it reads, and how, in six steps."),
    ] = None
    target: Annotated[str | None, Parameter(help="The class to explain; by default each picture's most likely one.")] = None
    word: Annotated[
        int | None,
        Parameter(converter=whole, help="Of text: number of a word, from 0; by default a pronoun, or the longest word."),
    ] = None
    box: Annotated[
        int | None,
        Parameter(converter=whole, help="Of a detector: the number of a box, the surest is 0; by default the five surest."),
    ] = None
    voxel: Annotated[
        tuple[int, int, int] | None,
        Parameter(
            converter=whole,
            negative="",
            help="Of a volume: X Y Z, from 0, to the right, front and up; by default the middle of the largest part.",
        ),
    ] = None
    limit: Annotated[
        int, Parameter(converter=whole, help="Of more pictures, or sentences, than this, so many are shown, evenly chosen.")
    ] = 24


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
class CompleteOptions:
    """What `vitrail complete` takes beside RUN and what is to be completed: pictures need a folder, text does not."""

    out: Annotated[str | None, Parameter(help="Of pictures: a new or empty folder for them and their sheet.")] = None
    longest: Annotated[
        int | None, Parameter(converter=whole, help="Of text: new tokens, at most; by default as many as the model reads.")
    ] = None
    samples: Annotated[int, Parameter(converter=whole, help="Completions of each.")] = 4
    keep: Annotated[float, Parameter(help="Share of the rows, from the top, that is given; 0: pictures from nothing.")] = 0.5
    temperature: Annotated[
        float, Parameter(help="Below 1 likelier colors, above 1 wilder ones; 0: the likeliest each time.")
    ] = 1.0
    top_k: Annotated[int | None, Parameter(converter=whole, help="Draw among so many of the likeliest colors.")] = None
    top_p: Annotated[float | None, Parameter(help="Draw among the likeliest colors that make up this share, in (0, 1].")] = None
    seed: Annotated[int, Parameter(converter=whole, help="Decides every draw.")] = 0
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreOptions:
    """What `vitrail restore` takes beside RUN and pictures."""

    tile: Annotated[
        int | Auto,
        Parameter(converter=whole, help="Restore pieces of this side, so that memory is bounded; auto: pictures over 512."),
    ] = "auto"
    overlap: Annotated[
        int | None, Parameter(converter=whole, help="Pixels that neighboring pieces share; by default as the model sees far.")
    ] = None
    out: Annotated[str | None, Parameter(help="A folder for the pictures; by default each lies beside its original.")] = None
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"
