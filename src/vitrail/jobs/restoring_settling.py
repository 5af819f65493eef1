"""Options without `auto` for restoring pictures, the pictures, and the model."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vitrail.data.dataset import DataSet
from vitrail.data.degradation import RULES, Degradation, parse_degradation
from vitrail.data.loading import choose_workers
from vitrail.errors import VitrailError, check_choice
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import set_checkpointing
from vitrail.jobs.recipes import Recipe, taken_from
from vitrail.jobs.settling import PARTS, choose_parts, sample_pictures
from vitrail.jobs.trades import refuse_options
from vitrail.machine import check_precision, choose_device, spare_memory
from vitrail.models.catalogue import ARCHITECTURES, MODELS, create_model, model_config, rebuild
from vitrail.models.folder import load
from vitrail.models.purpose import purpose_of

PATCH = 32  # pixels a side of what the model is given; with 8 of them a step it learns faster than with the paper's 48 (docs/log.md)
AN_EPOCH = 3200  # patches, at least
RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "small": Recipe(epochs=40, batch=8, lr=1e-3, weight_decay=0.0, smoothing=0.0, ema=0.999),
        "finetune": Recipe(epochs=20, batch=8, lr=3e-4, weight_decay=0.0, smoothing=0.0, ema=0.999),
        # Without turns and the average of the weights: the baseline to compare with.
        "plain": Recipe(epochs=40, batch=8, lr=1e-3, weight_decay=0.0, smoothing=0.0),
    }
)
NOT_OURS: Mapping[str, Any] = MappingProxyType({"smoothing": 0.0, "shard": False})


def damage_of(options: TrainOptions) -> Degradation:
    """What to undo; there is no damage that most people would mean."""
    if options.degrade is None:
        raise VitrailError(f"--task restore needs --degrade, what to undo: {RULES}")
    return parse_degradation(options.degrade)


def load_trained(options: TrainOptions, how: Degradation) -> Any:
    """The model of --weights; None without --weights."""
    if options.weights is None:
        return None
    loaded = load(options.weights)
    if purpose_of(loaded) != "restore":
        raise VitrailError(f"--weights {options.weights}: a model of the kind {loaded.architecture} restores no pictures")
    if loaded.scale != how.scale:
        raise VitrailError(
            f"--weights {options.weights}: a model that enlarges {loaded.scale} times; --degrade {how} needs {how.scale}"
        )
    return loaded


def settle_restoring(options: TrainOptions, data: DataSet, *, how: Degradation, loaded: Any = None) -> TrainOptions:
    """The same options with every `auto` replaced."""
    refuse_options(options, NOT_OURS, who="restoring pictures")
    train = data["train"]
    choices: dict[str, Any] = {"device": choose_device(options.device)}
    check_precision(options.precision, choices["device"])
    if loaded is None:
        name = choices["model"] = choose_restorer(how) if options.model == "auto" else options.model
        config = check_restorer(name, how, chosen=options.model == "auto")
        choices["in_channels"] = options.in_channels
        if options.in_channels == "auto":  # a model of gray pictures is one, whatever the pictures are
            gray = config.in_channels == 1 or all(picture.mode == "L" for picture in sample_pictures(train, 32))
            choices["in_channels"] = 1 if gray else 3
        choices |= choose_parts(options, name, config)
    kind = choices["recipe"] = ("small" if loaded is None else "finetune") if options.recipe == "auto" else options.recipe
    recipe = RECIPES[check_choice("recipe for restoring", kind, RECIPES)]
    choices |= taken_from(recipe, options)
    if options.lr is None:
        choices["lr"] = recipe.lr
    if options.flip is None:
        choices["flip"] = kind != "plain"
    if options.patch_size == "auto":
        choices["patch_size"] = PATCH
    if options.patches == "auto":
        choices["patches"] = -(-AN_EPOCH // len(train))
    if options.cache == "disk":
        raise VitrailError("--cache disk: pictures of any size are kept in memory or not at all; give memory or off")
    choices["cache"] = "memory" if options.cache == "auto" else options.cache
    if options.cache_gb == "auto":
        choices["cache_gb"] = round(spare_memory() / 4 / 2**30, 3)
    if options.workers == "auto":  # from memory a patch takes less than sending it to another process does
        choices["workers"] = choose_workers(train) if how.kind == "real" or choices["cache"] == "off" else 0
    return replace(options, **choices)


def choose_restorer(how: Degradation) -> str:
    return "swinir_nano" if how.scale == 1 else f"swinir_nano_x{min(how.scale, 4)}"


def check_restorer(name: str, how: Degradation, *, chosen: bool) -> Any:
    """The config of a name, if its model can undo this. One that enlarges inside has its scale in its name; the others enlarge their
    input first, by whatever is asked for."""
    architecture, config = model_config(name)
    if ARCHITECTURES[architecture].takes != "restoration":
        raise VitrailError(f"--model {name} restores no pictures; {choose_restorer(how)} does")
    inside = hasattr(config, "upsampler")
    if inside and config.scale != how.scale and not chosen:
        base = name.rsplit("_x", 1)[0]
        other = next((word for word in (f"{base}_x{how.scale}", base) if fits(word, how)), choose_restorer(how))
        raise VitrailError(f"--model {name} enlarges {config.scale} times, --degrade {how} needs {how.scale}: {other} does")
    return config


def fits(name: str, how: Degradation) -> bool:
    return name in MODELS and MODELS[name][1].scale == how.scale


def prepare_restorer(options: TrainOptions, how: Degradation, loaded: Any) -> Any:
    """A new model for the damage, or the loaded one."""
    if loaded is not None:
        model = rebuild(loaded, degradation=str(how))
    else:
        config = model_config(options.model)[1]
        parts = {name: getattr(options, name) for name in PARTS if hasattr(config, name)}
        channels = options.in_channels
        model = create_model(
            options.model, scale=how.scale, in_channels=channels, out_channels=channels, degradation=str(how), **parts
        )
    if options.checkpointing:
        set_checkpointing(model)
    return model.to(options.device)
