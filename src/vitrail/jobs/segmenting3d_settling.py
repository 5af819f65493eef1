"""Options without `auto` for labelling the voxels of volumes, and the model."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vitrail.data.volumes.cases import Preparing
from vitrail.data.volumes.crops import Varying
from vitrail.data.volumes.intensity import check_window
from vitrail.data.volumes.opening import VolumeData, find_common_window
from vitrail.errors import VitrailError, check_choice
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import real, set_checkpointing
from vitrail.jobs.recipes import Recipe, taken_from
from vitrail.jobs.trades import refuse_options
from vitrail.machine import check_precision, choose_device
from vitrail.models.catalogue import ARCHITECTURES, build_model, create_model, model_config
from vitrail.models.folder import load

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "tiny": Recipe(epochs=20, batch=2, lr=1e-3, weight_decay=0.01, smoothing=0.0, rotate=15.0, zoom=0.15),
        "small": Recipe(epochs=100, batch=2, lr=5e-4, weight_decay=0.01, smoothing=0.0, rotate=15.0, zoom=0.15),
        "finetune": Recipe(epochs=10, batch=2, lr=3e-4, weight_decay=0.01, smoothing=0.0, rotate=15.0, zoom=0.15),
        # Crops as they are: the baseline to compare with.
        "plain": Recipe(epochs=20, batch=2, lr=1e-3, weight_decay=0.0, smoothing=0.0),
    }
)
FEW = 20  # volumes: up to here the recipe is "tiny"
STEPS = 32  # of an epoch, at least; with more volumes than crops in them each has its turn
BRIGHTNESS = 0.1
# What the task has no use for; beside `auto` only these say nothing.
NOT_OURS: Mapping[str, Any] = MappingProxyType(
    {"layer_decay": 1.0, "shard": False, "position": None, "position_where": "auto", "attention": None}
)


def check_ours(options: TrainOptions) -> None:
    """An option that would have no effect is refused, not passed over; so are numbers out of range."""
    refuse_options(options, NOT_OURS, who="--task segment3d")
    for name in ("crop", "spacing"):
        given = getattr(options, name)
        if given is not None and (len(given) not in (1, 3) or min(given) <= 0):
            raise VitrailError(f"--{name} takes X Y Z, or one number for all, above 0; got {' '.join(f'{n:g}' for n in given)}")
    if options.window_level is not None:
        check_window(options.window_level)
    if not 0 <= options.foreground <= 1:
        raise VitrailError(f"--foreground must be a share from 0 to 1, got {options.foreground:g}")
    if not 0 <= options.overlap < 1:
        raise VitrailError(f"--overlap must be a share from 0 to below 1, got {options.overlap:g}")


def load_trained(options: TrainOptions) -> Any:
    """The model of --weights; None without."""
    if options.weights is None:
        return None
    loaded = load(options.weights)
    if ARCHITECTURES[loaded.architecture].takes != "volumes":
        raise VitrailError(f"--weights {options.weights}: a model of the kind {loaded.architecture} does not label volumes")
    return loaded


def settle_volumes(options: TrainOptions, data: VolumeData, loaded: Any) -> TrainOptions:
    """The same options with every `auto` replaced."""
    choices: dict[str, Any] = {"device": choose_device(options.device)}
    check_precision(options.precision, choices["device"])
    if loaded is None:
        name = choices["model"] = "unetr_micro" if options.model == "auto" else options.model
        architecture, config = model_config(name)
        if ARCHITECTURES[architecture].takes != "volumes":
            raise VitrailError(f"--model {name} does not label volumes; unetr_micro does")
        choices["crop"] = three(options.crop) or config.image_size
        if any(side % config.patch for side in choices["crop"]):
            raise VitrailError(
                f"--crop must be whole patches of {config.patch} voxels a side for {name}, got {' '.join(map(str, choices['crop']))}"
            )
        choices["spacing"] = three(options.spacing)
    else:
        choices |= {"crop": loaded.image_size, "spacing": loaded.config.spacing}
        for name in ("crop", "spacing"):
            if three(getattr(options, name)) not in (None, choices[name]):
                asked, own = (" ".join(f"{n:g}" for n in given or ()) for given in (getattr(options, name), choices[name]))
                raise VitrailError(
                    f"--{name} {asked}: --weights brings its own model, whose {name} is {own or 'that of each file'}"
                )
    if options.window_level is None:
        kept = None if loaded is None else loaded.config.window
        choices["window_level"] = kept or find_common_window(data.splits["train"])
    by_count = "tiny" if len(data.splits["train"]) <= FEW else "small"
    kind = choices["recipe"] = (by_count if loaded is None else "finetune") if options.recipe == "auto" else options.recipe
    recipe = RECIPES[check_choice("recipe for volumes", kind, RECIPES)]
    choices |= taken_from(recipe, options)
    if options.lr is None:
        choices["lr"] = recipe.lr
    if options.flip is None:
        choices["flip"] = False  # left and right are not the same in a body
    return replace(options, **choices)


def three(given: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return given if given is None or len(given) == 3 else given * 3


def preparing_of(options: TrainOptions, data: VolumeData) -> Preparing:
    assert options.spacing is None or len(options.spacing) == 3
    return Preparing(options.spacing, options.window_level, data.values)


def varying_of(options: TrainOptions) -> Varying:
    plain = options.recipe == "plain"
    return Varying(
        flip=bool(options.flip),
        rotate=real(options.rotate),
        zoom=real(options.zoom),
        brightness=0.0 if plain else BRIGHTNESS,
    )


def crops_of(cases: int, batch: int) -> int:
    """How many an epoch has."""
    return max(STEPS * batch, cases)


def prepare_model(options: TrainOptions, data: VolumeData, loaded: Any) -> Any:
    """A new model for the classes, or the loaded one; where its classes are others, with a new last layer."""
    told: dict[str, Any] = {
        "num_classes": len(data.values), "values": data.values, "spacing": options.spacing, "window": options.window_level,
        "image_size": options.crop, "largest": (),
    }  # fmt: skip
    if loaded is None:
        model = create_model(options.model, **told)
    else:
        model = build_model(loaded.architecture, replace(loaded.config, **told))
        weights, own = loaded.state_dict(), model.state_dict()
        model.load_state_dict({name: weights[name] if weights[name].shape == own[name].shape else own[name] for name in own})
    model.labels = data.classes
    if options.checkpointing:
        set_checkpointing(model)
    return model.to(options.device)
