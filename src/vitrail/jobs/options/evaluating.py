"""The options of `vitrail eval`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from vitrail.jobs.options.values import Auto, several, whole

PROTOCOL = Group(
    "Features", help="With --protocol: what the features of pictures are good for, with few labels. --out goes on.", sort_key=9
)


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
    ignore_index: Annotated[
        tuple[int, ...] | None,
        several("Of a segmenter: numbers in masks that belong to no class; by default the run's."),
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
