"""Options without `auto` for accelerated MRI, and the model."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vitrail.data.mri.batches import Sampling
from vitrail.errors import VitrailError, check_choice
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import set_checkpointing
from vitrail.jobs.recipes import Recipe, taken_from
from vitrail.jobs.trades import refuse_options
from vitrail.machine import check_precision, choose_device
from vitrail.models.catalogue import ARCHITECTURES, create_model, model_config, rebuild
from vitrail.models.folder import load

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "tiny": Recipe(epochs=40, batch=4, lr=1e-3, weight_decay=0.0, smoothing=0.0),
        "small": Recipe(epochs=10, batch=4, lr=1e-3, weight_decay=0.0, smoothing=0.0),
        "finetune": Recipe(epochs=20, batch=4, lr=5e-4, weight_decay=0.0, smoothing=0.0),
    }
)
# What a recipe's rate is multiplied by for each network. A new one is the identity, and only few of their layers are normalized.
RATES: Mapping[str, float] = MappingProxyType({"vit_restorer": 4.0, "unet": 2.0, "swinir": 1.0})
FEW = 1000  # slices: up to here the recipe is "tiny"
STEPS = 24  # an epoch has at least so many, going over the slices several times, each time with other masks
# What the task has no use for; beside `auto` only these say nothing.
NOT_OURS: Mapping[str, Any] = MappingProxyType(
    {"smoothing": 0.0, "layer_decay": 1.0, "shard": False, "position": None, "position_where": "auto", "attention": None}
)


def check_ours(options: TrainOptions) -> None:
    """An option that would have no effect is refused, not passed over; so are numbers out of range."""
    refuse_options(options, NOT_OURS, who="--task mri")
    if options.acceleration < 1:
        raise VitrailError(f"--acceleration must be at least 1, got {options.acceleration:g}")
    if options.center != "auto" and not 0 < options.center * options.acceleration <= 1:
        raise VitrailError(
            f"--center must be above 0 and at most what is measured, 1 / {options.acceleration:g} of the lines, got {options.center:g}"
        )
    if options.slices is not None and options.slices < 1:
        raise VitrailError(f"--slices must be at least 1, got {options.slices}")
    if options.rows is not None and options.rows < 1:
        raise VitrailError(f"--rows must be at least 1, got {options.rows}")
    if options.rows is not None and options.objective == "equivariant":
        raise VitrailError(
            "--objective equivariant turns whole slices around: --rows, which cuts bands out of them, does not go with it"
        )


def sampling_of(options: TrainOptions) -> Sampling:
    center = None if options.center == "auto" else float(options.center)
    return Sampling(kind=options.mask, acceleration=float(options.acceleration), center=center)


def describe_sampling(sampling: Sampling) -> str:
    middle = "" if sampling.center is None else f", {sampling.center:.1%} of the lines in the middle always"
    return f"{sampling.acceleration:g}x accelerated, {sampling.kind} lines{middle}"


def load_trained(options: TrainOptions) -> Any:
    """The model of --weights, trained on whatever contents; None without --weights."""
    if options.weights is None:
        return None
    loaded = load(options.weights)
    if ARCHITECTURES[loaded.architecture].takes != "k-space":
        raise VitrailError(f"--weights {options.weights}: a model of the kind {loaded.architecture} does not read k-space")
    return loaded


def settle_scan(options: TrainOptions, slices: int, loaded: Any) -> TrainOptions:
    """The same options with every `auto` replaced; `slices` are those to learn from."""
    choices: dict[str, Any] = {"device": choose_device(options.device)}
    check_precision(options.precision, choices["device"])
    config = None if loaded is None else loaded.config
    if config is None:
        name = choices["model"] = "mri_vit_small" if options.model == "auto" else options.model
        architecture, config = model_config(name)
        if ARCHITECTURES[architecture].takes != "k-space":
            raise VitrailError(f"--model {name} does not read k-space; mri_vit_small does")
    by_slices = "tiny" if slices <= FEW else "small"
    kind = choices["recipe"] = (by_slices if loaded is None else "finetune") if options.recipe == "auto" else options.recipe
    recipe = RECIPES[check_choice("recipe for MRI", kind, RECIPES)]
    choices |= taken_from(recipe, options, but={"lr", "batch"})
    if options.lr is None:
        choices["lr"] = recipe.lr * RATES[config.network]
    if options.batch == "auto":
        choices["batch"] = min(recipe.batch, slices)
    return replace(options, **choices)


def passes_of(slices: int, batch: int, *, share: float = 1.0) -> int:
    """How often an epoch goes over so many slices, of each of which it sees a share: it has at least `STEPS` / share steps."""
    return max(1, -(-int(STEPS / share) // max(1, slices // batch)))


def prepare_model(options: TrainOptions, loaded: Any) -> Any:
    """A new model, or the loaded one, whose weights are the same whatever is done about the measured lines."""
    kept = options.consistency
    model = create_model(options.model, consistency=kept) if loaded is None else rebuild(loaded, consistency=kept)
    if options.checkpointing:
        set_checkpointing(model)
    return model.to(options.device)
