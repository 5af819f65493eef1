"""Image classification as a job: pictures, a model for them, and options settled by both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vitrail.data.augmentation import Augmentation
from vitrail.data.bad_files import BadFile, BadFiles
from vitrail.data.cache import Cache
from vitrail.data.dataset import DataSet, SplitName
from vitrail.data.images import PictureError
from vitrail.data.label_share import keep_share
from vitrail.data.loading import Loader
from vitrail.data.mixing import Mixing
from vitrail.data.packing import PackedLoader
from vitrail.errors import VitrailError
from vitrail.jobs.classification_scores import evaluate_classifier, finish, packing
from vitrail.jobs.cleaning import list_bad, open_clean, opening_words
from vitrail.jobs.facts import count_splits
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import describe_recipe, find_rate, make_plan, real, set_checkpointing, whole
from vitrail.jobs.recipes import RECIPES, recipe_for
from vitrail.jobs.settling import PARTS, measure_on, settle, size_of
from vitrail.jobs.teaching import Taught, check_teaching, describe_teacher, distillation_of, find_teacher
from vitrail.learn.losses.balance import class_weights
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.models.adapting import adapt
from vitrail.models.backbones import backbone_of
from vitrail.models.catalogue import count_parameters, create_model, model_config, rebuild, rebuild_merging
from vitrail.models.folder import load
from vitrail.models.packing import check_norms
from vitrail.preprocessing import Fit, Preprocessing
from vitrail.tasks.classify.objective import Classify

OF_RECIPE = ("drop_path", "token_keep")  # options of a recipe that are the model's to follow


class Classifying:
    """Satisfies `jobs.trades.Trade`."""

    def __init__(
        self, data: DataSet, model: Any, options: TrainOptions, bad: BadFiles, *, taught: Taught | None = None
    ) -> None:
        self.data, self.model, self.options, self.bad, self.taught = data, model, options, bad, taught
        self.name = data.name

    @classmethod
    def prepare(cls, options: TrainOptions, bar: ProgressBar, *, begun: Path | None) -> "Classifying":
        """Data without its bad files, a model for it, and options without `auto`."""
        loaded = None if options.weights is None else load_adapted(options, bar)
        data, bad = open_clean(options.data, **opening_words(options, bar, begun=begun))
        data = keep_share(data, options.labels, seed=options.seed)
        taught = find_teacher(options, data, begun=begun is not None)
        options = settle(options, data, loaded=loaded)
        torch.manual_seed(options.seed)
        model = prepare_model(options, data, loaded)
        check_teaching(options, model)
        return cls(data, model, options, bad, taught=taught)

    def find_rate(self, folder: Path, bar: ProgressBar) -> float:
        unlimited = BadFiles(pictures=1, limit=1.0)
        return find_rate(
            self.options,
            self.model,
            begin=RECIPES[self.options.recipe].lr,
            plan=lambda options: plan_for(options, self.model, device=options.device),
            task=lambda trial: make_task(self.options, self.data, trial, self.options.device, World(), taught=self.taught),
            batches=make_loaders(
                self.options, self.data, self.model.preprocessing, unlimited, World(), packed=packing(self.model)
            )[0],
            folder=folder,
            bar=bar,
        )

    def describe(self, folder: Path, bar: ProgressBar) -> None:
        describe(bar, self.data, self.options, self.model, folder, taught=self.taught)

    def keep(self, folder: Path, bar: ProgressBar) -> None:
        list_bad(self.bad, folder, bar)

    def make_plan(self, *, device: str) -> Plan:
        return plan_for(self.options, self.model, device=device)

    def make_task(self, *, device: str, world: World) -> Classify:
        return make_task(self.options, self.data, self.model, device, world, taught=self.taught)

    def make_loaders(self, world: World) -> tuple[Loader, Loader]:
        return make_loaders(self.options, self.data, self.model.preprocessing, self.bad, world, packed=packing(self.model))

    def finish(self, folder: Path, progress: Progress, bar: ProgressBar, world: World) -> tuple[dict[str, float], Any]:
        return finish(folder, self.data, self.options, progress, bar, self.bad, world, taught=self.taught)

    evaluate = staticmethod(evaluate_classifier)


def load_adapted(options: TrainOptions, bar: ProgressBar) -> Any:
    """The classifier of --weights, for pictures of the size and the channels that are asked for, if any are."""
    what = f"--weights {options.weights}"
    channels = None if options.in_channels == "auto" else options.in_channels
    loaded = backbone_of(load(str(options.weights)), what=what)
    found, notes = adapt(loaded, image_size=size_of(options), in_channels=channels, what=what)
    for note in notes:
        bar.say(f"{what}: {note}")
    return found


def plan_for(options: TrainOptions, model: Any, *, device: str) -> Plan:
    return make_plan(options, device=device, progressive=real(options.progressive), multiple=model.size_multiple)


def make_task(
    options: TrainOptions, data: DataSet, model: Any, device: str, world: World, *, taught: Taught | None = None
) -> Classify:
    return Classify(
        model,
        smoothing=real(options.smoothing),
        weights=balancing_weights(options, data),
        multi_label=data.multi_label,
        device=device,
        compiled=options.compile,
        world=world,
        teacher=None if taught is None else taught.make(model, device=device),
        distillation=None if taught is None else distillation_of(options),
    )


def make_loaders(
    options: TrainOptions,
    data: DataSet,
    preprocessing: Preprocessing,
    bad: BadFiles,
    world: World,
    *,
    packed: Mapping[str, Any] | None = None,
) -> tuple[Loader, Loader]:
    """Those of pictures with classes, which may be mixed, balanced and repeated; `packed` as `packing` has it."""
    drawn: dict[str, Any] = {"balanced": options.balance == "sampling", "repeats": whole(options.repeats)}
    if packed is not None:
        return picture_loaders(options, data, preprocessing, bad, world, make=partial(PackedLoader, **packed), **drawn)
    mixing = Mixing(mixup=real(options.mixup), cutmix=real(options.cutmix))
    return picture_loaders(
        options,
        data,
        preprocessing,
        bad,
        world,
        mixing=mixing if mixing.mixup or mixing.cutmix else None,
        classes=len(data.classes),
        **drawn,
    )


def picture_loaders(
    options: TrainOptions,
    data: Any,
    preprocessing: Preprocessing,
    bad: BadFiles,
    world: World,
    *,
    make: Callable[..., Loader] | None = None,
    **of_training: Any,
) -> tuple[Loader, Loader]:
    """Training pictures, shuffled and moved about, and validation pictures as they are; decoded ones are kept for next time.
    `make` makes a loader, `of_training` is what else that of the former is told."""
    numbers = {field.name: getattr(options, field.name) for field in fields(Augmentation)}
    found: list[Loader] = []
    for name, cache in make_caches(options, data, preprocessing).items():
        split, training = data[name], name == "train"
        found.append(
            (make or Loader)(
                split,
                preprocessing,
                batch=whole(options.batch),
                shuffle=training,
                how=Augmentation(**numbers) if training else None,
                seed=options.seed,
                workers=whole(options.workers),
                cache=cache,
                on_bad=partial(note_bad, bad, name),
                rank=world.rank,
                world=world.size,
                **(of_training if training else {}),
            )
        )
    return found[0], found[1]


def make_caches(options: TrainOptions, data: Any, preprocessing: Preprocessing) -> dict[SplitName, Cache | None]:
    """What keeps the decoded pictures that are read every epoch, within the room there is; training pictures first."""
    shape, budget = (*preprocessing.size, preprocessing.channels), int(real(options.cache_gb) * 2**30)
    found: dict[SplitName, Cache | None] = {"train": None, "val": None}
    if options.cache in ("memory", "disk"):
        for name in found:
            cache = found[name] = Cache(len(data[name]), shape, kind=options.cache, budget=budget)
            budget -= cache.size
    return found


def note_bad(bad: BadFiles, split: str, error: PictureError) -> None:
    bad.add(BadFile(error.name, split, error.reason, "during"))


def balancing_weights(options: TrainOptions, data: DataSet) -> Tensor | None:
    if options.balance != "weights":
        return None
    weights = class_weights(data["train"].labels, len(data.classes))
    return torch.from_numpy(weights)


def prepare_model(options: TrainOptions, data: DataSet, loaded: Any) -> Any:
    """A new model with preprocessing measured on the training pictures, or the loaded one with a head that fits."""
    device = "cpu" if options.shard else options.device  # whole, it may not fit
    if loaded is not None:
        model = rebuild_merging(rebuild(loaded, **known_options(options, loaded.config, OF_RECIPE)), options.merge)
        model.labels = loaded.labels
        if model.labels != data.classes:
            model.reset_classifier(len(data.classes), labels=data.classes)
        model.multi_label = data.multi_label
        if options.checkpointing:
            set_checkpointing(model)
        model.preprocessing = replace(model.preprocessing, fit=choose_fit(options, model))
        if options.freeze == "encoder":
            model.freeze_encoder()
        return model.to(device)
    assert options.image_size is not None
    merging: dict[str, Any] = {} if options.merge is None else {"merge": options.merge}
    model = create_model(
        options.model,
        num_classes=len(data.classes),
        image_size=options.image_size,
        in_channels=options.in_channels,
        **merging,
        **known_options(options, model_config(options.model)[1], (*PARTS, *OF_RECIPE)),
    )
    if options.checkpointing:
        set_checkpointing(model)
    model.labels, model.multi_label = data.classes, data.multi_label
    fit = choose_fit(options, model)
    model.preprocessing = replace(measure_on(data["train"], model.preprocessing), fit=fit)
    return model.to(device)


def choose_fit(options: TrainOptions, model: Any) -> Fit:
    """With --pack pictures keep their aspect; the model must be one that takes them so."""
    fit: Fit = model.preprocessing.fit
    if not options.pack:
        return "squash" if fit == "aspect" else fit
    if not hasattr(model, "forward_packed"):
        raise VitrailError(
            f"--pack: a model of the kind {model.architecture} cannot pack pictures of different sizes; a vit can"
        )
    check_norms(model)
    return "aspect"


def known_options(options: TrainOptions, config: Any, names: Sequence[str]) -> dict[str, Any]:
    """Of the options, those that this kind of model has: a convolutional net has no tokens to leave out."""
    found = {name: getattr(options, name) for name in names if hasattr(config, name)}
    recipes = (RECIPES[options.recipe], recipe_for(options.recipe, size=config.image_size, channels=config.in_channels))
    for name in set(OF_RECIPE) - found.keys():  # parts were looked at when the options were settled
        if getattr(options, name) not in [getattr(recipe, name) for recipe in recipes]:
            raise VitrailError(f"--{name.replace('_', '-')} {getattr(options, name)}: this model has no such option")
    return found


def describe(
    bar: ProgressBar, data: DataSet, options: TrainOptions, model: Any, folder: Path, *, taught: Taught | None = None
) -> None:
    counts = count_splits(data.splits)
    height, width = model.image_size
    bar.say(f"{data.name}: {len(data.classes)} classes, {counts}")
    for note in data.notes:
        bar.say(f"  {note}")
    name = options.model if options.weights is None else f"weights of {options.weights}"
    shape = f"{height}x{width}x{model.config.in_channels}" + (", or as many pixels in their own aspect" if options.pack else "")
    learning = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    frozen = f", of which {learning:,} learn" if options.freeze != "none" else ""
    bar.say(f"{name}: {count_parameters(model):,} parameters{frozen}, pictures {shape}")
    if taught is not None:
        bar.say(describe_teacher(options, taught))
    bar.say(describe_recipe(options))
    bar.say(f"writing to {folder}")
