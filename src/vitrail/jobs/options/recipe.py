"""How a model learns, and how its pictures are changed meanwhile."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from vitrail.jobs.options.values import Auto, whole

RECIPE = Group("Recipe", help="Each is the recipe's unless given.", sort_key=2)


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """What a recipe has; each can be set by itself."""

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
