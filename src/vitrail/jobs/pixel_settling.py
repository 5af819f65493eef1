"""Options without `auto` for learning from pixels, and the model with its palette."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch

from vitrail.data.dataset import DataSet
from vitrail.data.palette import Palette, learn_palette, some_pictures
from vitrail.errors import VitrailError, check_choice
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import real, set_checkpointing, whole
from vitrail.jobs.recipes import Recipe, choose_recipe, taken_from
from vitrail.jobs.settling import PARTS, choose_feeding, choose_parts, choose_size, sample_pictures
from vitrail.jobs.trades import refuse_options
from vitrail.machine import check_precision, choose_device
from vitrail.models.catalogue import create_model, model_config, rebuild
from vitrail.models.folder import load
from vitrail.models.purpose import purpose_of
from vitrail.preprocessing import neutral

MOST_PIXELS = 256  # of the size that is chosen by itself: attention costs the square of it
RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "tiny": Recipe(epochs=60, batch=64, lr=3e-3, smoothing=0.0),
        "small": Recipe(epochs=20, batch=64, lr=2e-3, smoothing=0.0),
        "medium": Recipe(epochs=5, batch=128, lr=1e-3, smoothing=0.0),
        "large": Recipe(epochs=1, batch=128, lr=1e-3, smoothing=0.0),
        "finetune": Recipe(epochs=10, batch=64, lr=5e-4, smoothing=0.0),
        "plain": Recipe(epochs=30, batch=64, lr=1e-3, smoothing=0.0),  # without dropout
    }
)
# What is about labels, about patches, or would change the colors that are learned; beside `auto` only these say nothing.
NOT_OURS: Mapping[str, Any] = MappingProxyType(
    {
        "balance": "none", "smoothing": 0.0, "drop_path": 0.0, "mixup": 0.0, "cutmix": 0.0, "token_keep": 1.0, "progressive": 1.0,
        "cutout": 0.0, "erase": 0.0, "operations": 0, "shard": False,
    }
)  # fmt: skip


def check_ours(options: TrainOptions) -> None:
    """An option that would have no effect is refused, not passed over."""
    refuse_options(options, NOT_OURS, who="learning from pixels")


def load_trained(options: TrainOptions) -> Any:
    """The model of --weights, which brings its palette; None without --weights."""
    if options.weights is None:
        return None
    loaded = load(options.weights)
    if purpose_of(loaded) != "igpt":
        raise VitrailError(f"--weights {options.weights}: a model of the kind {loaded.architecture} does not learn from pixels")
    if options.colors != "auto" and options.colors != loaded.vocabulary:
        raise VitrailError(f"--weights brings a palette of {loaded.vocabulary} colors: --colors {options.colors} cannot be had")
    return loaded


def settle_pixels(options: TrainOptions, data: DataSet, loaded: Any) -> TrainOptions:
    """The same options with every `auto` replaced; `colors` is at most what is said, until the palette is learned."""
    train = data["train"]
    choices: dict[str, Any] = {"device": choose_device(options.device)}
    check_precision(options.precision, choices["device"])
    if loaded is None:
        first = sample_pictures(train, 32)
        size = choose_size(options, first)
        if options.image_size is None and size[0] * size[1] > MOST_PIXELS:
            size = (16, 16)
        channels = (3 if any(p.mode != "L" for p in first) else 1) if options.in_channels == "auto" else options.in_channels
        name = options.model if options.model != "auto" else "igpt_nano" if size[0] * size[1] <= 100 else "igpt_micro"
        architecture, config = model_config(name)
        if architecture != "igpt":
            raise VitrailError(f"--model {name} does not learn from pixels; igpt_nano does")
        choices |= {"image_size": size, "in_channels": channels, "model": name, **choose_parts(options, name, config)}
        if options.colors == "auto":
            choices["colors"] = config.colors
    else:
        size, channels, config = loaded.image_size, loaded.config.in_channels, loaded.config
        choices["masked"] = not config.causal
        if options.masked and config.causal:
            raise VitrailError("--weights brings its own model, which is causal: --masked cannot be given beside it")
    kind = choices["recipe"] = (
        choose_recipe(len(train), trained=loaded is not None) if options.recipe == "auto" else options.recipe
    )
    recipe = RECIPES[check_choice("recipe for pixels", kind, RECIPES)]
    choices |= taken_from(recipe, options)
    if options.dropout == "auto":
        choices["dropout"] = 0.0 if kind == "plain" else config.dropout
    choices |= choose_feeding(options, data, recipe, (*size, channels), plain=kind == "plain")
    return replace(options, **choices)


def prepare_model(options: TrainOptions, data: DataSet, loaded: Any) -> tuple[Any, float]:
    """A new model over a palette of the training pictures, or the loaded one with its own; and the palette's error on them."""
    if loaded is not None:
        model = rebuild(loaded, dropout=real(options.dropout))
        pictures = some_pictures(data["train"], model.preprocessing, seed=options.seed)
        error = Palette(model.palette.numpy()).error(pictures)
    else:
        wanted: dict[str, Any] = {
            "image_size": options.image_size,
            "in_channels": options.in_channels,
            "causal": not options.masked,
        }
        wanted |= {name: getattr(options, name) for name in (*PARTS, "dropout")}
        assert options.image_size is not None
        size = (options.image_size[0], options.image_size[1])
        pictures = some_pictures(data["train"], neutral(size, whole(options.in_channels)), seed=options.seed)
        palette = learn_palette(pictures, whole(options.colors), seed=options.seed)
        if len(palette) < 2:
            raise VitrailError(f"{data.name}: all training pictures have one color only; there is nothing to learn")
        model, error = create_model(options.model, colors=len(palette), **wanted), palette.error(pictures)
        model.palette.copy_(torch.from_numpy(palette.colors))
    if options.checkpointing:
        set_checkpointing(model)
    return model.to(options.device), error
