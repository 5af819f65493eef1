"""The main job: pictures in, a trained, evaluated, saved model out."""

import copy
import itertools
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitrail.data.augmentation import Augmentation
from vitrail.data.bad_files import BAD_FILES, BadFile, BadFiles, read_bad_files
from vitrail.data.cache import Cache
from vitrail.data.dataset import DataSet
from vitrail.data.images import PictureError
from vitrail.data.loading import Batch, Loader
from vitrail.data.mixing import Mixing
from vitrail.data.transforms import measure, read_fitted
from vitrail.errors import VitrailError
from vitrail.extras import need
from vitrail.files import write_whole
from vitrail.jobs.cleaning import list_bad, open_clean
from vitrail.jobs.evaluate import finish, read_metrics
from vitrail.jobs.machine import choose_device
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.recipes import RECIPES, recipe_for
from vitrail.jobs.settling import PARTS, check_numbers, settle, size_of, spell_out, spread
from vitrail.jobs.stored import NOT_STORED, read_options, to_store
from vitrail.learn.objectives.balance import class_weights
from vitrail.learn.optim.range_test import run_range_test
from vitrail.learn.training.event_log import EventLog
from vitrail.learn.training.loop import fit
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.progress_bar import ProgressBar, clock
from vitrail.learn.training.run_folder import CONFIG, RunFolder, new_run_folder
from vitrail.learn.training.sharding import shard
from vitrail.learn.training.state import latest_state, read_progress
from vitrail.learn.training.step import Stepper
from vitrail.learn.training.world import World
from vitrail.models.catalogue import build_model, count_parameters, create_model, model_config
from vitrail.models.folder import load
from vitrail.preprocessing import Preprocessing
from vitrail.records import from_record
from vitrail.tasks.classify import Classify

OF_RECIPE = ("drop_path", "token_keep")  # options of a recipe that are the model's to follow


@dataclass(frozen=True)
class Run:
    """What training leaves behind."""

    path: Path
    model: Any
    metrics: dict[str, float]
    first: bool = True  # of the processes that trained together: the one that speaks


def train(*, quiet: bool = False, **options: Any) -> Run:
    """`vitrail train` in Python: the same options by the same names, such as train(data="digits", epochs=5)."""
    if isinstance(options.get("image_size"), int):
        options["image_size"] = (options["image_size"],)
    for name in ("data", "out", "weights"):
        if isinstance(options.get(name), Path):
            options[name] = str(options[name])
    return run_training(from_record(TrainOptions, options, what="train"), given=options.keys(), quiet=quiet)


def run_training(options: TrainOptions, *, given: Set[str], quiet: bool = False) -> Run:
    """`given` names the options that the user wrote, which a resumed run checks against the stored ones.

    Under torchrun the first process settles and writes everything; the others then do as a resumed run does.
    """
    check_numbers(options)
    options = spell_out(options)
    if options.resume and options.out is None:
        raise VitrailError("--resume needs --out: the folder of the run to go on with")
    if options.tensorboard:
        need("tensorboardX", "logs")  # now, not when the first numbers are to be written
    world = World.join(choose_device(options.device))
    bar = ProgressBar(quiet=quiet or not world.first)
    try:
        return _train(options, given, world, bar)
    finally:
        world.leave()


def _train(options: TrainOptions, given: Set[str], world: World, bar: ProgressBar) -> Run:
    folder = None if options.out is None else Path(options.out).expanduser()
    if world.first and folder is not None:
        options = check_folder(folder, options, given=given)
    finished = world.share(world.first and folder is not None and is_finished(folder))
    if folder is not None and finished and (metrics := read_metrics(folder)):
        bar.say(f"{folder} is finished")
        return Run(path=folder, model=load(folder), metrics=metrics, first=world.first)

    if world.first:
        begun = folder is not None and (folder / CONFIG).is_file()
        if options.shard and world.size == 1 and not begun:  # one process may go on with what several began
            raise VitrailError(
                "--shard divides the model among several processes: start them with torchrun (see docs/scale.md)"
            )
        data, model, options, bad = prepare(
            options, bar, known=read_bad_files(folder / BAD_FILES) if begun and folder else None
        )
        if folder is None:
            folder = new_run_folder(Path("runs") / options.task, data.name)
        folder.mkdir(parents=True, exist_ok=True)
        if options.lr == "auto":
            options = replace(options, lr=find_rate(options, data, model, folder, bar))
        describe(bar, data, options, model, folder)
        list_bad(bad, folder, bar)  # before config.yaml, which says to a resumed run that the pictures have been tried
        run = RunFolder(folder, events=open_events(folder, options))
        run.write_config(to_store(options))
        run.write_machine()
    told = world.share(str(folder))
    if not world.first:
        folder = Path(told)
        options = replace(read_options(folder / CONFIG), out=options.out, resume=options.resume)
        data, model, options, bad = prepare(options, bar, known=read_bad_files(folder / BAD_FILES))
        run = RunFolder(folder, writes=False)
    assert folder is not None
    plan = make_plan(options, model, device=world.device if world.size > 1 else options.device)
    if options.shard and world.size > 1:
        shard(model, world)
    else:
        model.to(plan.device)
    task = make_task(options, data, model, plan.device, world)
    train_pictures, validation = make_loaders(options, data, model.preprocessing, bad, world)
    progress = fit(task, train_pictures, validation, plan, run, bar, world)
    bar.say(f"trained in {clock(progress.elapsed)}; the best epoch was {progress.best['epoch']:.0f}" if progress.best else "")
    world.wait()  # best/ is whole
    metrics, model = finish(folder, data, options, progress, bar, bad, world)
    return Run(path=folder, model=model, metrics=metrics, first=world.first)


def open_events(folder: Path, options: TrainOptions) -> EventLog:
    """Event files beside the run's other files, if they are asked for; of a resumed run, from where it goes on."""
    checkpoint = latest_state(folder / "state")
    return EventLog(
        folder / "events" if options.tensorboard else None, step=read_progress(checkpoint).step if checkpoint else 0
    )


def check_folder(folder: Path, options: TrainOptions, *, given: Set[str]) -> TrainOptions:
    """The options of the run to go on with, or those given for a new one, whose folder must be empty."""
    if options.resume and (folder / CONFIG).is_file():
        return stored_options(folder, options, given=given)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())) and not (options.resume and folder.is_dir()):
        raise VitrailError(f"{folder}: exists and is not empty; a run is never overwritten (--resume goes on with it)")
    return options


def is_finished(folder: Path) -> bool:
    if not (folder / CONFIG).is_file():
        return False
    checkpoint = latest_state(folder / "state")
    return checkpoint is not None and read_progress(checkpoint).finished and read_metrics(folder) is not None


def prepare(
    options: TrainOptions, bar: ProgressBar, *, known: Sequence[BadFile] | None
) -> tuple[DataSet, Any, TrainOptions, BadFiles]:
    """Data without its bad files, a model for it, and options without `auto`."""
    loaded = None if options.weights is None else load(options.weights)
    data, bad = open_clean(
        options.data, seed=options.seed, image_size=size_of(options), limit=options.bad_files, bar=bar, known=known
    )
    options = settle(options, data, loaded=loaded)
    torch.manual_seed(options.seed)
    return data, prepare_model(options, data, loaded), options, bad


def make_plan(options: TrainOptions, model: Any, *, device: str) -> Plan:
    assert options.optimizer != "auto"
    return Plan(
        epochs=whole(options.epochs),
        minutes=options.minutes,
        lr=real(options.lr),
        weight_decay=real(options.weight_decay),
        warmup=real(options.warmup),
        clip=real(options.clip),
        optimizer=options.optimizer,
        layer_decay=real(options.layer_decay),
        accumulate=options.accumulate,
        sam=real(options.sam),
        ema=real(options.ema),
        progressive=real(options.progressive),
        multiple=model.size_multiple,
        seed=options.seed,
        device=device,
        precision=options.precision,
    )


def make_task(options: TrainOptions, data: DataSet, model: Any, device: str, world: World) -> Classify:
    return Classify(
        model,
        smoothing=real(options.smoothing),
        weights=balancing_weights(options, data),
        multi_label=data.multi_label,
        device=device,
        compiled=options.compile,
        world=world,
    )


def find_rate(options: TrainOptions, data: DataSet, model: Any, folder: Path, bar: ProgressBar) -> float:
    """A range test on the training pictures, with a picture of it; model and generators are as before afterwards."""
    from vitrail.rendering import to_png
    from vitrail.report.range_test import draw_range_test

    bar.say("looking for a learning rate: a hundred steps, each a little faster than the one before")
    trial = copy.deepcopy(model).to(options.device)
    state = torch.get_rng_state()
    plan = make_plan(replace(options, lr=RECIPES[options.recipe].lr, ema=0.0, sam=0.0), model, device=options.device)
    stepper = Stepper(make_task(options, data, trial, plan.device, World()), plan, World())
    batches = forever(make_loaders(options, data, model.preprocessing, BadFiles(pictures=1, limit=1.0), World())[0])
    trial.train()
    result = run_range_test(lambda rate: stepper.take(next(batches), rate).loss)
    torch.set_rng_state(state)
    write_whole(folder / "lr_range.png", to_png(draw_range_test(result)))
    bar.say(f"learning rate {result.chosen:.2g}: see {folder / 'lr_range.png'}")
    return float(f"{result.chosen:.2g}")


def forever(loader: Loader) -> Iterator[Batch]:
    for epoch in itertools.count():
        yield from loader.batches(epoch)


def make_loaders(
    options: TrainOptions, data: DataSet, preprocessing: Preprocessing, bad: BadFiles, world: World
) -> tuple[Loader, Loader]:
    """Training pictures, shuffled and moved about, and validation pictures as they are; decoded ones are kept for next time."""
    shape, budget = (*preprocessing.size, preprocessing.channels), int(real(options.cache_gb) * 2**30)
    mixing = Mixing(mixup=real(options.mixup), cutmix=real(options.cutmix))
    numbers = {field.name: getattr(options, field.name) for field in fields(Augmentation)}
    found: list[Loader] = []
    for name in ("train", "val"):
        split, training = data[name], name == "train"
        cache = None
        if options.cache in ("memory", "disk"):
            cache = Cache(len(split), shape, kind=options.cache, budget=budget)
            budget -= cache.size
        found.append(
            Loader(
                split,
                preprocessing,
                batch=whole(options.batch),
                shuffle=training,
                balanced=training and options.balance == "sampling",
                how=Augmentation(**numbers) if training else None,
                seed=options.seed,
                workers=whole(options.workers),
                cache=cache,
                on_bad=partial(note_bad, bad, name),
                mixing=mixing if training and (mixing.mixup or mixing.cutmix) else None,
                classes=len(data.classes),
                repeats=whole(options.repeats) if training else 1,
                rank=world.rank,
                world=world.size,
            )
        )
    return found[0], found[1]


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
        # Rebuilt, because stochastic depth belongs to the recipe, not to the weights.
        model = build_model(loaded.architecture, replace(loaded.config, **known_options(options, loaded.config, OF_RECIPE)))
        model.load_state_dict(loaded.state_dict())
        model.preprocessing, model.labels = loaded.preprocessing, loaded.labels
        if model.labels != data.classes:
            model.reset_classifier(len(data.classes), labels=data.classes)
        model.multi_label = data.multi_label
        set_checkpointing(model, options)
        return model.to(device)
    assert options.image_size is not None
    model = create_model(
        options.model,
        num_classes=len(data.classes),
        image_size=options.image_size,
        in_channels=options.in_channels,
        **known_options(options, model_config(options.model)[1], (*PARTS, *OF_RECIPE)),
    )
    set_checkpointing(model, options)
    model.labels, model.multi_label = data.classes, data.multi_label
    plain: Preprocessing = model.preprocessing
    some = spread(len(data["train"]), 1000)
    mean, std = measure(np.stack([read_fitted(data["train"], index, plain) for index in some]))
    model.preprocessing = replace(plain, mean=mean, std=std)
    return model.to(device)


def known_options(options: TrainOptions, config: Any, names: Sequence[str]) -> dict[str, Any]:
    """Of the options, those that this kind of model has: a convolutional net has no tokens to leave out."""
    found = {name: getattr(options, name) for name in names if hasattr(config, name)}
    recipes = (RECIPES[options.recipe], recipe_for(options.recipe, size=config.image_size, channels=config.in_channels))
    for name in set(OF_RECIPE) - found.keys():  # parts were looked at when the options were settled
        if getattr(options, name) not in [getattr(recipe, name) for recipe in recipes]:
            raise VitrailError(f"--{name.replace('_', '-')} {getattr(options, name)}: this model has no such option")
    return found


def set_checkpointing(model: Any, options: TrainOptions) -> None:
    if hasattr(model, "encoder"):
        model.encoder.checkpointing = options.checkpointing
    elif options.checkpointing:
        raise VitrailError(f"--checkpointing: a model of the kind {model.architecture} has no blocks to compute twice")


def stored_options(folder: Path, options: TrainOptions, *, given: Set[str]) -> TrainOptions:
    """The options of the run in `folder`; those given again must say the same."""
    stored = read_options(folder / CONFIG)
    for field in fields(options):
        name, asked = field.name, getattr(options, field.name)
        kept = getattr(stored, name)
        if name in given - set(NOT_STORED) and asked not in ("auto", kept):
            raise VitrailError(
                f"--{name.replace('_', '-')} {asked} differs from the run's own ({kept}); --weights starts a new run from its weights"
            )
    return replace(stored, out=options.out, resume=True)


def describe(bar: ProgressBar, data: DataSet, options: TrainOptions, model: Any, folder: Path) -> None:
    counts = ", ".join(f"{len(split):,} {name}" for name, split in data.splits.items())
    height, width = model.image_size
    bar.say(f"{data.name}: {len(data.classes)} classes, {counts}")
    for note in data.notes:
        bar.say(f"  {note}")
    name = options.model if options.weights is None else f"weights of {options.weights}"
    bar.say(f"{name}: {count_parameters(model):,} parameters, pictures {height}x{width}x{model.config.in_channels}")
    long = f"{options.epochs} epochs" if options.minutes is None else f"{options.minutes:g} minutes"
    bar.say(f"recipe {options.recipe}: {long}, batch {options.batch}, lr {options.lr:g} on {options.device}")
    bar.say(f"writing to {folder}")


def whole(value: int | str) -> int:
    assert isinstance(value, int), value
    return value


def real(value: float | str | None) -> float:
    assert isinstance(value, int | float), value
    return value
