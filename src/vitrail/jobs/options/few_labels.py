"""Options of learning with few labels, or none."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from vitrail.jobs.options.values import Auto, whole

DISTILLATION = Group("Few labels", help="With --task classify: learn with a teacher, or from a part of the labels.", sort_key=7)
PRETRAINING = Group(
    "Pretraining",
    help="With `vitrail pretrain`; each says which methods have it. auto: as published, for small data.",
    sort_key=8,
)


@dataclass(frozen=True, kw_only=True)
class DistillationOptions:
    """Of a teacher, and of a part of the labels."""

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


@dataclass(frozen=True, kw_only=True)
class PretrainingOptions:
    """Of learning from pictures alone."""

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
