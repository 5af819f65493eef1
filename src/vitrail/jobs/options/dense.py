"""Options of tasks that answer place by place: pixels, objects, voxels."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from vitrail.jobs.options.values import Auto, several, whole

SEGMENTATION = Group("Segmentation", help="With --task segment; --jitter with --task detect too.", sort_key=10)
DETECTION = Group("Detection", help="With --task detect.", sort_key=11)
VOLUMES = Group("Volumes", help="With --task segment3d; x points to the patient's right, y to the front, z up.", sort_key=6)


@dataclass(frozen=True, kw_only=True)
class SegmentationOptions:
    """Of masks."""

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
        Literal["auto", "none", "balanced", "softened"],
        Parameter(
            group=SEGMENTATION,
            help="balanced: pixels of rare classes count more, by median frequency; softened: by its root; auto: softened where one class has ten times the pixels of another.",
        ),
    ] = "auto"
    ignore_index: Annotated[
        tuple[int, ...] | None,
        several(
            "Numbers in masks that belong to no class; by default those that classes.txt calls void, ignore or unlabelled. 255 always.",
            group=SEGMENTATION,
        ),
    ] = None
    jitter: Annotated[
        float | Auto,
        Parameter(group=SEGMENTATION, help="Change brightness, contrast and saturation by up to this share, in [0, 1)."),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class DetectionOptions:
    """Of boxes."""

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
    query_kind: Annotated[
        Literal["auto", "learned", "anchor", "selected"],
        Parameter(
            group=DETECTION,
            help="What a query begins as: a learned row (DETR), a learned box, or a box at a place of the picture; auto: the model's.",
        ),
    ] = "auto"
    guesses: Annotated[
        int | Auto,
        Parameter(
            converter=whole,
            group=DETECTION,
            help="Selected places that may stand for each object while they learn; 1: one-to-one; auto: the model's.",
        ),
    ] = "auto"
    negatives: Annotated[
        bool | None,
        Parameter(
            group=DETECTION,
            help="Let half of the queries with noise be too far off to be anything; by default as the model has it.",
        ),
    ] = None
    focal: Annotated[
        bool | None,
        Parameter(
            group=DETECTION,
            help="A sigmoid for each class and the focal loss, not one softmax with nothing in it; by default as the model has it.",
        ),
    ] = None
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


@dataclass(frozen=True, kw_only=True)
class VolumeOptions:
    """Of labelled volumes."""

    crop: Annotated[
        tuple[int, ...] | None,
        several("X Y Z, or N: voxels that the model is given at a time; by default the model's.", group=VOLUMES),
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
    keep_largest: Annotated[
        Literal["auto", "none", "all"],
        Parameter(
            group=VOLUMES,
            help="Of which classes only the largest part in one piece is kept; auto: of those whose Dice on validation it raises.",
        ),
    ] = "auto"
    overlap: Annotated[
        float,
        Parameter(group=VOLUMES, help="Share of a window that the next one sees again where volumes are scored, in [0, 1)."),
    ] = 0.5
