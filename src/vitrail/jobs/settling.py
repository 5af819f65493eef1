"""From the options that a user gave to options without `auto`: what the data, the model and the machine decide."""

import math
from collections.abc import Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from PIL import Image

from vitrail.data.cache import choose_cache
from vitrail.data.dataset import DataSet, Split
from vitrail.data.examples import spread
from vitrail.data.formats.numbering import check_ignored
from vitrail.data.loading import choose_workers
from vitrail.data.opening import BUILT_IN
from vitrail.data.transforms import measure, read_fitted
from vitrail.errors import VitrailError, check_choice
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.recipes import SMALL, Recipe, choose_recipe, recipe_for, taken_from
from vitrail.jobs.teaching import check_wishes, settle_distillation
from vitrail.machine import check_precision, choose_device, spare_memory
from vitrail.models.catalogue import ARCHITECTURES, model_config
from vitrail.models.parts import KERNELS, position_name, position_where
from vitrail.preprocessing import Preprocessing

AT_LEAST: dict[str, float] = {
    "epochs": 1,
    "batch": 1,
    "image_size": 1,
    "workers": 0,
    "seed": 0,
    "weight_decay": 0,
    "rotate": 0,
    "merge": 0,
    "bad_files": 0,
    "accumulate": 1,
    "repeats": 1,
    "operations": 0,
    "magnitude": 0,
    "mixup": 0,
    "cutmix": 0,
    "sam": 0,
    "erase": 0,
    "vocabulary": 16,
    "longest": 2,
    "batch_tokens": 16,
    "beams": 1,
    "colors": 2,
    "patch_size": 1,
    "patches": 1,
    "distill_share": 0,
    "views": 0,
    "prototypes": 2,
    "momentum": 0,
    "knn_every": 0,
    "queries": 1,
    "denoising": 0,
    "guesses": 1,
}
ABOVE: dict[str, float] = {
    "minutes": 0, "lr": 0, "clip": 0, "cache_gb": 0, "token_keep": 0, "layer_decay": 0, "progressive": 0, "temperature": 0,
    "teacher_temperature": 0, "labels": 0, "distill_temperature": 0, "least_window": 0,
}  # fmt: skip
AT_MOST: dict[str, float] = {
    "bad_files": 1, "magnitude": 10, "erase": 1, "token_keep": 1, "layer_decay": 1, "progressive": 1, "colors": 2**16,
    "views": 64, "prototypes": 2**20, "momentum": 1, "labels": 1, "distill_share": 1, "least_window": 1, "queries": 10_000, "denoising": 1000, "guesses": 100,
}  # fmt: skip
LARGEST_SEED = 2**63 - 1  # torch's generators take no more
LARGEST = 224  # the side that is chosen for large pictures
PARTS = ("position", "position_where", "attention")  # of a model, chosen by name
SHARES = ("warmup", "smoothing", "drop_path", "shift", "zoom", "cutout", "ema", "dropout", "merge_dropout", "jitter")


def check_numbers(options: TrainOptions) -> None:
    """Every number within its range, before any work is done."""
    for field in fields(options):
        value, name = getattr(options, field.name), field.name
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, str | bool) or number is None:
                continue
            spelled = f"--{name.replace('_', '-')}"
            if number != number or number in (float("inf"), float("-inf")):
                raise VitrailError(f"{spelled} must be a finite number, got {number}")
            if name in AT_LEAST and number < AT_LEAST[name]:
                raise VitrailError(f"{spelled} must be at least {AT_LEAST[name]:g}, got {number}")
            if name in ABOVE and number <= ABOVE[name]:
                raise VitrailError(f"{spelled} must be above {ABOVE[name]:g}, got {number}")
            if name in SHARES and not 0 <= number < 1:
                raise VitrailError(f"{spelled} must be in [0, 1), got {number}")
            if name in AT_MOST and number > AT_MOST[name]:
                raise VitrailError(f"{spelled} must be at most {AT_MOST[name]:g}, got {number}")
            if name == "in_channels" and number not in (1, 3):
                raise VitrailError(f"{spelled} must be 1 (gray) or 3 (color), got {number}")
    if options.seed > LARGEST_SEED:
        raise VitrailError(f"--seed must be at most {LARGEST_SEED}, got {options.seed}")
    for name in ("data", "out", "weights", "model", "source", "target", "degrade", "teacher"):
        if getattr(options, name) == "":
            raise VitrailError(f"--{name} is empty")
    if options.val_share is not None and not 0 < options.val_share < 1:
        raise VitrailError(f"--val-share must be between 0 and 1, got {options.val_share:g}")
    check_ignored(options.ignore_index or ())
    if options.image_size is not None and len(options.image_size) not in (1, 2):
        raise VitrailError(f"--image-size takes N or H W, got {len(options.image_size)} numbers")
    if options.minutes is not None and options.epochs != "auto":
        raise VitrailError("--minutes and --epochs are two ways to say how long: give one of them")
    if options.weights is not None:
        for name in (
            "model",
            *PARTS,
            *(() if options.task in ("mri", "classify", "segment", "detect") else ("image_size", "in_channels")),
        ):  # k-space has any size, and classifiers and encoders are adapted to one
            if getattr(options, name) not in (None, "auto"):
                raise VitrailError(f"--weights brings its own model: --{name.replace('_', '-')} cannot be given beside it")
    if options.freeze != "none" and options.weights is None:
        raise VitrailError(f"--freeze {options.freeze} keeps what --weights brings: give --weights too")
    check_wishes(options)
    check_shard(options)
    check_pack(options)
    if options.position is not None:
        position_where(options.position, options.position_where)  # and that there is such a position
    if options.attention is not None:
        check_choice("attention", options.attention, attention_choices(options.model))


def attention_choices(model: str) -> Collection[str]:
    """The kernels, or what the config of a model of this name has for choices: a recurrent one's are others."""
    kinds = {} if model == "auto" else {field.name: field.type for field in fields(model_config(model)[1])}
    return get_args(kinds.get("attention")) or KERNELS


def check_shard(options: TrainOptions) -> None:
    """What looks at a whole weight, or at the code of the whole model, cannot be had of a model in shares."""
    if not options.shard:
        return
    for wish, spelled in (
        (options.compile, "--compile"),
        (options.sam not in ("auto", 0), f"--sam {options.sam}"),
        (options.optimizer in ("lamb", "muon"), f"--optimizer {options.optimizer}"),
        (options.freeze != "none", f"--freeze {options.freeze}"),
    ):
        if wish:
            raise VitrailError(f"--shard and {spelled} do not go together: leave one of them out")


def check_pack(options: TrainOptions) -> None:
    """What takes all pictures of a step to be of one size."""
    if not options.pack:
        return
    for wish, spelled in (
        (options.compile, "--compile"),
        (options.shard, "--shard"),
        (options.mixup not in ("auto", 0), f"--mixup {options.mixup}"),
        (options.cutmix not in ("auto", 0), f"--cutmix {options.cutmix}"),
        (options.progressive not in ("auto", 1), f"--progressive {options.progressive}"),
        (options.merge not in (None, 0), f"--merge {options.merge}"),
    ):
        if wish:
            raise VitrailError(f"--pack and {spelled} do not go together: pictures of a step are of different sizes")


def spell_out(options: TrainOptions) -> TrainOptions:
    """The same wishes in one form each, so that they can be stored, and compared with stored ones: a size is (h, w), a position
    has its full name, and a path is right from any folder."""
    return replace(
        options,
        data=absolute(options.data),
        weights=options.weights and absolute(options.weights),
        teacher=options.teacher and absolute(options.teacher),
        tokenizer=options.tokenizer and absolute(options.tokenizer),
        image_size=size_of(options),
        ignore_index=None if options.ignore_index is None else tuple(sorted(set(options.ignore_index))),
        position=options.position and position_name(options.position),
    )


def size_of(options: TrainOptions) -> tuple[int, int] | None:
    """(h, w), of N or H W."""
    return None if options.image_size is None else (options.image_size[0], options.image_size[-1])


def absolute(source: str) -> str:
    """An existing path as it is called from any folder; names of built-in sets and hub ids stay as they are."""
    path = Path(source).expanduser()
    return str(path.resolve()) if source not in BUILT_IN and path.exists() else source


def settle(options: TrainOptions, data: DataSet, *, loaded: Any = None) -> TrainOptions:
    """The same options with every `auto` replaced. `loaded` is the model that --weights brought."""
    train = data["train"]
    first = sample_pictures(train, 32)
    choices: dict[str, Any] = {"device": choose_device(options.device), **settle_distillation(options)}
    check_precision(options.precision, choices["device"])
    if loaded is None:
        choices["image_size"] = choose_size(options, first)
        choices["in_channels"] = (
            (3 if any(p.mode != "L" for p in first) else 1) if options.in_channels == "auto" else options.in_channels
        )
        choices["model"] = (
            choose_model(choices["image_size"], len(train), pack=options.pack) if options.model == "auto" else options.model
        )
        architecture, config = model_config(choices["model"])
        if ARCHITECTURES[architecture].takes != "pictures":
            raise VitrailError(f"--model {choices['model']} is no classifier of pictures, which --task {options.task} needs")
        choices |= choose_parts(options, choices["model"], config)
        size, channels = choices["image_size"], choices["in_channels"]
    else:
        size, channels = loaded.image_size, loaded.config.in_channels
    name = choices["recipe"] = (
        choose_recipe(len(train), trained=loaded is not None) if options.recipe == "auto" else options.recipe
    )
    recipe = recipe_for(name, size=size, channels=channels)
    choices |= taken_from(recipe, options)
    if options.pack:  # a recipe's wishes give way
        choices |= {"mixup": 0.0, "cutmix": 0.0, "progressive": 1.0}
    if options.shard and choices.get("optimizer") == "muon":  # which needs whole matrices; its rates are AdamW's
        choices["optimizer"] = "adamw"
    choices |= choose_feeding(options, data, recipe, (*size, channels), plain=name == "plain")
    settled = replace(options, **choices)
    check_shard(settled)  # a recipe has wishes too
    return settled


def choose_feeding(
    options: TrainOptions, data: DataSet, recipe: Recipe, shape: tuple[int, int, int], *, plain: bool, least: int = 1
) -> dict[str, Any]:
    """How pictures of a shape (h, w, channels) come to the model: what is `auto` of rate, batch (of `least` pictures), mirror, workers and
    cache."""
    train, choices = data["train"], dict[str, Any]()
    if options.lr is None:
        choices["lr"] = recipe.lr
    if options.batch == "auto":  # at least eight steps an epoch, where there are pictures enough
        choices["batch"] = max(least, min(recipe.batch, len(train) // 8))
    if options.flip is None:
        choices["flip"] = shape[2] == 3 and not plain  # a digit or a letter is another one in the mirror
    if options.workers == "auto":
        choices["workers"] = choose_workers(train)
    room = choices["cache_gb"] = round(spare_memory() / 4 / 2**30, 3) if options.cache_gb == "auto" else options.cache_gb
    if options.cache == "auto":
        # Both are read every epoch; test is read once.
        choices["cache"] = choose_cache([train, data["val"]], shape, budget=int(room * 2**30))
    return choices


def choose_parts(options: TrainOptions, model: str, config: Any) -> dict[str, Any]:
    """The parts of a new model that can be chosen by name: the user's, or those of the config of this name."""
    choices: dict[str, Any] = {}
    for name in PARTS:
        asked = getattr(options, name) not in (None, "auto")
        choices[name] = getattr(options, name) if asked else getattr(config, name, getattr(options, name))
        if asked and not hasattr(config, name):
            raise VitrailError(f"--{name.replace('_', '-')} {getattr(options, name)}: {model} has no {name} to choose")
    if choices["position"]:
        choices["position"] = position_name(choices["position"])
        if hasattr(config, "position_where"):  # else a run that is resumed would ask for what it cannot have
            choices["position_where"] = position_where(choices["position"], choices["position_where"])
    return choices


def choose_size(options: TrainOptions, pictures: list[Image.Image]) -> tuple[int, int]:
    """The user's, or the pictures' own if they are small and alike; else the common shorter side, in steps of 16, 224 at most."""
    if (asked := size_of(options)) is not None:
        return asked
    if options.pack:  # the area is what counts; no picture of the usual one is to be shrunk, whatever the patch
        side = float(np.median([math.sqrt(p.height * p.width) for p in pictures]))
        step = 16 if side > SMALL else 8
        return (min(LARGEST, math.ceil(side / step) * step),) * 2
    sizes = {(p.height, p.width) for p in pictures}
    if len(sizes) == 1 and max(height_width := sizes.pop()) <= SMALL:
        return height_width
    shorter = int(np.median([min(p.size) for p in pictures]))
    if shorter <= SMALL:
        return (shorter, shorter)
    return (min(LARGEST, shorter // 16 * 16),) * 2


def choose_model(size: tuple[int, int], pictures: int, *, pack: bool = False) -> str:
    if max(size) > SMALL:
        return "vit_tiny_patch16_224"
    if pack:  # no convolutions, whose batch norm wants pictures of one size
        return f"vit_nano_patch{small_patch(size)}_32"
    if pictures <= 5_000:
        return "vit_nano_conv"
    return "vit_micro_hybrid" if min(size) >= 24 else "vit_micro_conv"


def small_patch(size: tuple[int, int]) -> int:
    """Side of the patches of small pictures."""
    return 2 if min(size) <= 16 else 4 if min(size) <= 32 else 8


def measure_on(split: Split, preprocessing: Preprocessing) -> Preprocessing:
    """With mean and deviation of the colors of its pictures, a thousand of them."""
    some = [read_fitted(split, index, preprocessing) for index in spread(len(split), 1000)]
    mean, std = measure(np.stack(some))
    return replace(preprocessing, mean=mean, std=std)


def sample_pictures(split: Split, wanted: int) -> list[Image.Image]:
    """At most `wanted` of its pictures; decoded at no more than twice the side of the largest size that is chosen by itself."""
    return [split.read(i, target=(LARGEST, LARGEST)) for i in spread(len(split), wanted)]
