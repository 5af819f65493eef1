"""Options without `auto` for captions of pictures: what the data, the model and the machine decide."""

from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

import torch

from vitrail.data.cache import choose_cache
from vitrail.data.captions import CaptionData
from vitrail.data.loading import choose_workers
from vitrail.errors import VitrailError, check_choice
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.recipes import SMALL, Recipe, choose_recipe
from vitrail.jobs.settling import PARTS, choose_parts, choose_size, sample_pictures
from vitrail.jobs.text_settling import LARGEST_VOCABULARY, VOCABULARIES
from vitrail.machine import check_precision, choose_device, spare_memory
from vitrail.models.catalogue import create_model, model_config
from vitrail.models.purpose import purpose_of

LONGEST = 64  # tokens of a caption
STEPS = 8  # an epoch has at least so many, where there are pictures enough
# Options about pictures or text that mean nothing for captions, and the values that ask for nothing.
NOT_HERE: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "batch_tokens": ("auto",), "balance": ("none",), "drop_path": ("auto", 0), "mixup": ("auto", 0),
        "cutmix": ("auto", 0), "repeats": ("auto", 1), "token_keep": ("auto", 1), "progressive": ("auto", 1), "shard": (False,),
    }
)  # fmt: skip

# Pictures are neither turned nor mirrored: captions say left, right and below.
CAPTION_RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "tiny": Recipe(epochs=30, batch=64, lr=1e-3, smoothing=0.0, ema=0.998),
        "small": Recipe(epochs=10, batch=64, lr=1e-3, smoothing=0.0, ema=0.998),
        "medium": Recipe(epochs=20, batch=256, lr=1e-3, weight_decay=0.1, smoothing=0.1, ema=0.9995),
        "finetune": Recipe(epochs=5, batch=64, lr=3e-4, warmup=0.1, smoothing=0.0, ema=0.998),
        "plain": Recipe(epochs=30, batch=64, lr=1e-3, smoothing=0.0),
    }
)
# Small pictures, a Transformer: these instead, in all but `plain` and `finetune` (docs/log.md has the trials).
SMALL_PICTURES: Mapping[str, Any] = MappingProxyType({"optimizer": "muon", "lr": 4e-3})


def caption_recipe(name: str, *, size: tuple[int, int], hidden: bool) -> Recipe:
    """The recipe of a name; `hidden`: the model has blocks, whose matrices Muon is for."""
    recipe = CAPTION_RECIPES[check_choice("recipe for captions", name, CAPTION_RECIPES)]
    fits = name in ("tiny", "small") and max(size) <= SMALL and hidden
    return replace(recipe, **SMALL_PICTURES) if fits else recipe


def check_options(options: TrainOptions) -> None:
    """What captions have no use for is refused, not passed over."""
    for name, off in NOT_HERE.items():
        if getattr(options, name) not in off:
            raise VitrailError(f"--{name.replace('_', '-')} means nothing for --task caption")


def settle_captions(options: TrainOptions, data: CaptionData, *, loaded: Any = None) -> TrainOptions:
    """The same options with every `auto` replaced. `loaded` is the model that --weights brought."""
    check_options(options)
    train = data["train"]
    first = sample_pictures(train, 32)
    choices: dict[str, Any] = {"device": choose_device(options.device)}
    check_precision(options.precision, choices["device"])
    if loaded is None:
        size = choices["image_size"] = choose_size(options, first)
        choices["in_channels"] = (
            (3 if any(p.mode != "L" for p in first) else 1) if options.in_channels == "auto" else options.in_channels
        )
        name = choices["model"] = choose_model(size) if options.model == "auto" else options.model
        config = model_config(name)[1]
        with torch.device("meta"):
            if purpose_of(create_model(name)) != "caption":
                raise VitrailError(f"--model {name} does not fit --task caption; {choose_model(size)} does")
        if hasattr(config, "position"):
            choices |= choose_parts(options, name, config)
        elif asked := [part for part in PARTS if getattr(options, part) not in (None, "auto")]:
            raise VitrailError(
                f"--{asked[0].replace('_', '-')} {getattr(options, asked[0])}: {name} has no {asked[0]} to choose"
            )
        if options.vocabulary == "auto":
            sentences = sum(map(len, train.captions))
            choices["vocabulary"] = next((n for most, n in VOCABULARIES.items() if sentences <= most), LARGEST_VOCABULARY)
        if options.longest == "auto":
            choices["longest"] = LONGEST
    else:
        size, config = loaded.image_size, loaded.config
        choices |= {"vocabulary": loaded.vocabulary, "lower": loaded.tokenizer.lower, "longest": config.longest}
    choices["recipe"] = choose_recipe(len(train), trained=loaded is not None) if options.recipe == "auto" else options.recipe
    if options.recipe == "auto" and choices["recipe"] == "large":
        choices["recipe"] = "medium"
    recipe = caption_recipe(choices["recipe"], size=size, hidden=hasattr(config, "decoder_depth"))
    for field in fields(recipe):
        if field.name != "lr" and getattr(options, field.name) == "auto":
            choices[field.name] = getattr(recipe, field.name)
    if options.lr is None:
        choices["lr"] = recipe.lr
    if options.dropout == "auto":
        choices["dropout"] = config.dropout  # the model's own
    if options.batch == "auto":
        choices["batch"] = max(1, min(recipe.batch, len(train) // STEPS))
    if options.flip is None:
        choices["flip"] = False
    if options.workers == "auto":
        choices["workers"] = choose_workers(train)
    room = choices["cache_gb"] = round(spare_memory() / 4 / 2**30, 3) if options.cache_gb == "auto" else options.cache_gb
    if options.cache == "auto":
        channels = choices.get("in_channels", config.in_channels)
        choices["cache"] = choose_cache([train, data["val"]], (*size, channels), budget=int(room * 2**30))
    return replace(options, **choices)


def choose_model(size: tuple[int, int]) -> str:
    return "captioner_micro" if max(size) <= SMALL else "captioner_small"
