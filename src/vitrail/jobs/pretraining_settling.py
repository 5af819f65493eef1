"""Options without `auto` for learning without labels, the pictures, and the backbone."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitrail.data.bad_files import BadFile, BadFiles
from vitrail.data.dataset import DataSet
from vitrail.data.opening import divide_data, find_data
from vitrail.data.unlabelled import divide_unlabelled, find_unlabelled
from vitrail.errors import VitrailError, check_choice
from vitrail.jobs.classifying import known_options
from vitrail.jobs.cleaning import clean
from vitrail.jobs.methods.method import Choosing, Method, Standalone
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import set_checkpointing
from vitrail.jobs.recipes import SMALL, choose_recipe, taken_from
from vitrail.jobs.settling import PARTS, choose_feeding, choose_parts, choose_size, measure_on, sample_pictures, small_patch
from vitrail.jobs.trades import refuse_options
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.machine import check_precision, choose_device
from vitrail.models.backbones import NETWORKS, backbone_of
from vitrail.models.catalogue import create_model, model_config, rebuild
from vitrail.models.folder import load


def open_pictures(
    source: str,
    *,
    seed: int,
    image_size: tuple[int, int] | None,
    limit: float,
    progress: ProgressBar,
    known: Sequence[BadFile] | None = None,
    divide: bool = True,
) -> tuple[DataSet, BadFiles]:
    """Pictures with their labels where they have any, to see what was learned by; a folder without classes as it lies there."""
    divided: Callable[..., DataSet] = divide_data
    try:
        data = find_data(source, image_size=image_size)
    except VitrailError:  # a folder without classes; what else is wrong with it, the other way of reading says too
        if not Path(source).expanduser().is_dir():
            raise
        data, divided = find_unlabelled(source), divide_unlabelled
    data, bad = clean(data, limit=limit, progress=progress, known=known)
    return divided(data, seed=seed) if divide else data, bad


def load_backbone(options: TrainOptions, method: Method) -> Any:
    """The classifier, or what is inside of another pretrained model, to go on from; None without --weights."""
    if options.weights is None:
        return None
    found, what = load(options.weights), f"--weights {options.weights}"
    if not isinstance(method, Standalone):
        found = backbone_of(found, what=what)
    check_network(found.architecture, method, what=what)
    return found


def check_network(architecture: str, method: Method, *, what: str) -> None:
    """A classifier, unless the method has a kind of its own."""
    kinds = (method.architecture,) if isinstance(method, Standalone) else tuple(NETWORKS)
    if architecture not in kinds:
        raise VitrailError(f"{what}: --method {method.name} takes a {' or '.join(kinds)}, got a {architecture}")


def settle_pretraining(options: TrainOptions, data: DataSet, method: Method, loaded: Any) -> TrainOptions:
    """The same options with every `auto` replaced."""
    refuse_options(options, method.nothing, who=f"--method {method.name}")
    train = data["train"]
    choices: dict[str, Any] = {"device": choose_device(options.device)}
    check_precision(options.precision, choices["device"])
    if loaded is None:
        first = sample_pictures(train, 32)
        size = choices["image_size"] = choose_size(options, first)
        channels = (3 if any(p.mode != "L" for p in first) else 1) if options.in_channels == "auto" else options.in_channels
        choose = method.choose_model if isinstance(method, Choosing) else choose_backbone
        name = choices["model"] = choose(size, len(train)) if options.model == "auto" else options.model
        architecture, config = model_config(name)
        check_network(architecture, method, what=f"--model {name}")
        choices |= {"in_channels": channels, **choose_parts(options, name, config)}
    else:
        size, channels, config = loaded.image_size, loaded.config.in_channels, loaded.config
    kind = choices["recipe"] = (
        choose_recipe(len(train), trained=loaded is not None) if options.recipe == "auto" else options.recipe
    )
    recipe = method.recipes[check_choice(f"recipe for --method {method.name}", kind, method.recipes)]
    choices |= taken_from(recipe, options)
    choices |= choose_feeding(options, data, recipe, (*size, channels), plain=kind == "plain", least=2)
    settled = replace(options, **choices)
    return replace(settled, **method.settle(settled, config))


def need_patches(config: Any, *, method: str, example: str) -> None:
    """What hides patches takes no model whose tokens see beyond them."""
    if getattr(config, "tokenizer", None) != "patch":
        raise VitrailError(
            f"--method {method} hides patches: it needs a Vision Transformer whose tokens are patches, such as {example}"
        )


def choose_backbone(size: tuple[int, int], pictures: int) -> str:
    """Of patches, so that any method can have it."""
    if max(size) > SMALL:
        return "vit_tiny_patch16_224"
    return f"vit_{'nano' if pictures <= 5_000 else 'micro'}_patch{small_patch(size)}_32"


def prepare_backbone(options: TrainOptions, data: DataSet, loaded: Any, method: Method) -> Any:
    """A new classifier without classes, with preprocessing measured on the training pictures, or the loaded one."""
    if loaded is not None and isinstance(method, Standalone):
        model = loaded
    elif loaded is not None:
        model = rebuild(loaded, **known_options(options, loaded.config, ("drop_path",)))
        if model.num_classes:
            model.reset_classifier(0)
    else:
        model = method.create(options) if isinstance(method, Standalone) else create_backbone(options)
        model.preprocessing = measure_on(data["train"], model.preprocessing)
    if options.checkpointing:
        set_checkpointing(model)
    return model


def create_backbone(options: TrainOptions) -> Any:
    config = model_config(options.model)[1]
    return create_model(
        options.model,
        num_classes=0,
        image_size=options.image_size,
        in_channels=options.in_channels,
        **known_options(options, config, (*PARTS, "drop_path")),
    )
