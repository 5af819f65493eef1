"""Options without `auto` for finding objects, and the detector: what the data, the machine and --weights decide."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from PIL import Image

from vitrail.data.box_data import count_objects
from vitrail.data.dataset import DataSet
from vitrail.data.loading import choose_workers
from vitrail.errors import VitrailError, check_choice
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import real, set_checkpointing
from vitrail.jobs.recipes import SMALL, taken_from
from vitrail.jobs.settling import PARTS, choose_parts, measure_on, sample_pictures, size_of
from vitrail.jobs.trades import refuse_options
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.machine import check_precision, choose_device, spare_memory
from vitrail.models.adapting import adapt
from vitrail.models.backbones import backbone_of
from vitrail.models.catalogue import ARCHITECTURES, create_model, model_config, rebuild
from vitrail.models.detr import DetectorConfig, detector_on
from vitrail.models.folder import load
from vitrail.models.purpose import purpose_of

AREA = 320 * 240  # pixels that are chosen for large pictures, in their own aspect
STEP, ENCODER_STEP = 16, 32  # sides are multiples of it, as patches need; of an encoder that may merge them, of more
STEPS = 16  # an epoch has at least so many, where there are pictures enough
OF_BACKBONE = frozenset({"network", "backbone", "image_size", "in_channels", "num_classes"})
WISHES = ("queries", "denoising", "query_kind", "guesses", "negatives", "focal")  # of a detector, that an option may change
NOT_OURS: Mapping[str, Any] = MappingProxyType({"smoothing": 0.0, "shard": False})


@dataclass(frozen=True, kw_only=True, slots=True)
class DetectionRecipe:
    """How to learn to find objects. Each value can be overridden by an option of its name."""

    epochs: int
    batch: int = 16
    lr: float = 4e-4
    weight_decay: float = 0.01
    warmup: float = 0.05
    schedule: str = "cosine"
    clip: float = 1.0
    shift: float = 0.1
    rotate: float = 0.0  # the box around a turned box is wider than the object
    zoom: float = 0.25
    jitter: float = 0.2
    least_window: float = 0.5
    optimizer: str = "adamw"
    layer_decay: float = 1.0
    ema: float = 0.998
    sam: float = 0.0


RECIPES: Mapping[str, DetectionRecipe] = MappingProxyType(
    {
        # Hundreds of pictures: many passes, with Muon (docs/log.md has the trial).
        "tiny": DetectionRecipe(epochs=60, batch=8, lr=2e-3, optimizer="muon"),
        "small": DetectionRecipe(epochs=20, lr=2e-3, optimizer="muon"),
        # As many as COCO has.
        "medium": DetectionRecipe(epochs=50, batch=32, lr=2e-4, weight_decay=1e-4, clip=0.1, ema=0.9998),
        "finetune": DetectionRecipe(epochs=40, batch=8, lr=2e-4),
        # Nothing is moved but by --flip, and weights are not averaged: the baseline to compare with.
        "plain": DetectionRecipe(epochs=40, shift=0.0, zoom=0.0, jitter=0.0, least_window=1.0, ema=0.0),
    }
)
SIZES = {"tiny": 1_000, "small": 20_000}  # pictures, at most


def load_trained(options: TrainOptions, bar: ProgressBar) -> Any:
    """The model of --weights: a detector whole, of others the encoder, for pictures of the size and channels that are asked for, if any
    are. None without --weights."""
    if options.weights is None:
        return None
    what, loaded = f"--weights {options.weights}", load(options.weights)
    channels = None if options.in_channels == "auto" else options.in_channels
    if purpose_of(loaded) == "detect":
        if (size_of(options) or loaded.image_size) != loaded.image_size or (
            channels or loaded.config.in_channels
        ) != loaded.config.in_channels:
            raise VitrailError(
                f"{what}: a detector is gone on with as it is, of {loaded.image_size} and {loaded.config.in_channels} channel(s)"
            )
        return loaded
    found, notes = adapt(backbone_of(loaded, what=what), image_size=size_of(options), in_channels=channels, what=what)
    for note in notes:
        bar.say(f"{what}: {note}")
    return found


def settle_detecting(options: TrainOptions, data: DataSet, *, loaded: Any = None) -> TrainOptions:
    """The same options with every `auto` replaced. `loaded` is what --weights brought."""
    refuse_options(options, NOT_OURS, who="finding objects")
    train = data["train"]
    choices: dict[str, Any] = {"device": choose_device(options.device)}
    check_precision(options.precision, choices["device"])
    if loaded is None:
        first = sample_pictures(train, 32)
        step = (
            STEP if options.model == "auto" or ARCHITECTURES[model_config(options.model)[0]].takes == "boxes" else ENCODER_STEP
        )
        size = choices["image_size"] = size_of(options) or choose_box_size(first, step=step)
        gray = all(picture.mode == "L" for picture in first)
        choices["in_channels"] = (1 if gray else 3) if options.in_channels == "auto" else options.in_channels
        name = choices["model"] = choose_detector(size) if options.model == "auto" else options.model
        architecture, config = model_config(name)
        if ARCHITECTURES[architecture].takes not in ("boxes", "pictures"):
            raise VitrailError(
                f"--model {name} finds no objects, and has no features of pictures to find them by; {choose_detector(size)} does"
            )
        choices |= (
            choose_parts(options, name, config) if ARCHITECTURES[architecture].takes == "pictures" else no_parts(options, name)
        )
    elif purpose_of(loaded) == "detect":
        choices |= {"queries": loaded.config.queries}
        if options.queries not in ("auto", loaded.config.queries):
            raise VitrailError(f"--queries {options.queries}: the detector of --weights has {loaded.config.queries}")
    if options.queries == "auto" and "queries" not in choices:
        choices["queries"] = choose_queries(count_objects(train))
    kind = choices["recipe"] = (
        choose_recipe(len(train), trained=loaded is not None) if options.recipe == "auto" else options.recipe
    )
    recipe = RECIPES[check_choice("recipe for finding objects", kind, RECIPES)]
    choices |= taken_from(recipe, options, but=("lr", "batch"))
    if options.lr is None:
        choices["lr"] = recipe.lr
    if options.batch == "auto":
        choices["batch"] = max(1, min(recipe.batch, len(train) // STEPS))
    if options.flip is None:
        choices["flip"] = True
    if options.cache == "disk":
        raise VitrailError("--cache disk: pictures of any size are kept in memory or not at all; give memory or off")
    choices["cache"] = "memory" if options.cache == "auto" else options.cache
    if options.cache_gb == "auto":
        choices["cache_gb"] = round(spare_memory() / 4 / 2**30, 3)
    if options.workers == "auto":
        choices["workers"] = choose_workers(train)
    return replace(options, **choices)


def choose_recipe(pictures: int, *, trained: bool) -> str:
    return "finetune" if trained else next((name for name, most in SIZES.items() if pictures <= most), "medium")


def choose_box_size(pictures: list[Image.Image], *, step: int = STEP) -> tuple[int, int]:
    """The pictures' own size if they are small and alike; else about AREA pixels in their usual aspect, no more than they have."""
    sizes = {(picture.height, picture.width) for picture in pictures}
    if len(sizes) == 1 and max(height_width := sizes.pop()) <= SMALL:
        return height_width
    height, width = (float(np.median(side)) for side in zip(*((p.height, p.width) for p in pictures), strict=True))
    scale = min(1.0, math.sqrt(AREA / (height * width)))
    return max(step, round(scale * height / step) * step), max(step, round(scale * width / step) * step)


def choose_detector(size: tuple[int, int]) -> str:
    return "detr_micro" if max(size) <= SMALL else "detr_small"


def choose_queries(objects: np.ndarray) -> int:
    """Twice as many as there are objects in the fullest picture, in tens: half of them may look elsewhere."""
    return max(20, 10 * math.ceil(2 * int(objects.max(initial=1)) / 10))


def no_parts(options: TrainOptions, name: str) -> dict[str, Any]:
    """A detector by name has its parts."""
    for part in PARTS:
        if getattr(options, part) not in (None, "auto"):
            raise VitrailError(
                f"--{part.replace('_', '-')} {getattr(options, part)}: {name} has no {part} to choose; an encoder does"
            )
    return {}


def prepare_detector(options: TrainOptions, data: DataSet, loaded: Any) -> Any:
    """The detector of a name, or one on the encoder of a name or of --weights, with preprocessing measured on the training pictures; or
    the loaded one, for other classes if need be."""
    wishes = {name: getattr(options, name) for name in WISHES if getattr(options, name) not in ("auto", None)}
    if options.query_kind == "learned":  # which has no boxes to begin with, unless somebody insists
        wishes = {"denoising": 0, "guesses": 1} | wishes
    elif options.query_kind == "anchor":
        wishes = {"guesses": 1} | wishes
    classes = data.classes
    if loaded is not None and purpose_of(loaded) == "detect":
        model = rebuild(loaded, **wishes)
        model.labels = loaded.labels
        if model.labels != classes:
            model.reset_classifier(len(classes), labels=classes)
    elif loaded is not None:
        model = detector_on(loaded, num_classes=len(classes), **(head_of(choose_detector(loaded.image_size)) | wishes))
    else:
        shape: dict[str, Any] = {"image_size": options.image_size, "in_channels": options.in_channels}
        if ARCHITECTURES[model_config(options.model)[0]].takes == "boxes":
            model = create_model(options.model, num_classes=len(classes), **shape, **wishes)
        else:
            config = model_config(options.model)[1]
            parts = {name: getattr(options, name) for name in PARTS if hasattr(config, name)}
            encoder = create_model(options.model, num_classes=0, **shape, **parts)
            assert options.image_size is not None
            size = (options.image_size[0], options.image_size[-1])
            model = detector_on(encoder, num_classes=len(classes), **(head_of(choose_detector(size)) | wishes))
        model.preprocessing = measure_on(data["train"], model.preprocessing)
    model.labels = classes
    check_places(model)
    if options.checkpointing:
        set_checkpointing(model)
    return model.to(options.device)


def check_places(model: Any) -> None:
    """Queries that begin at places of the picture need as many of them: told before anything is written."""
    if model.proposals is None:
        return
    was_training = model.training
    with torch.inference_mode():
        memory = model.eval().encode(torch.zeros(1, model.config.in_channels, *model.image_size))
    model.train(was_training)
    if (places := memory.x.shape[1]) < model.config.queries:
        raise VitrailError(
            f"--queries {model.config.queries}: a picture of {model.image_size[0]}x{model.image_size[1]} has {places} places to begin at; "
            "take fewer, a larger --image-size, or --query-kind anchor"
        )


def head_of(name: str) -> dict[str, Any]:
    """What a detector of the catalogue has beside its backbone."""
    config = model_config(name)[1]
    return {field.name: getattr(config, field.name) for field in fields(DetectorConfig) if field.name not in OF_BACKBONE}


def movement_of(options: TrainOptions) -> dict[str, Any]:
    """How far training pictures may be changed: what `data.joint.Movement` takes."""
    numbers = {name: real(getattr(options, name)) for name in ("shift", "rotate", "zoom")}
    return {
        **numbers,
        "color": real(options.jitter),
        "flip": bool(options.flip),
        "flip_vertical": options.turns,
        "quarter_turns": options.turns,
    }


def budget_of(options: TrainOptions) -> int:
    """Bytes of decoded pictures to keep."""
    return int(real(options.cache_gb) * 2**30) if options.cache == "memory" else 0
