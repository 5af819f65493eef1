"""The main job: pictures in, a trained, evaluated, saved model out."""

from collections.abc import Set
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
from vitrail.data.loading import Loader
from vitrail.data.transforms import measure, read_fitted
from vitrail.errors import VitrailError
from vitrail.jobs.cleaning import list_bad, open_clean
from vitrail.jobs.evaluate import finish, read_metrics
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.settling import check_numbers, settle, size_of, spell_out, spread
from vitrail.jobs.stored import NOT_STORED, read_options, to_store
from vitrail.learn.objectives.balance import class_weights
from vitrail.learn.training.loop import Plan, fit
from vitrail.learn.training.progress_bar import ProgressBar, clock
from vitrail.learn.training.run_folder import CONFIG, RunFolder, new_run_folder
from vitrail.learn.training.state import latest_state, read_progress
from vitrail.models.catalogue import build_model, count_parameters, create_model
from vitrail.models.folder import load
from vitrail.preprocessing import Preprocessing
from vitrail.records import from_record
from vitrail.tasks.classify import Classify


@dataclass(frozen=True)
class Run:
    """What training leaves behind."""

    path: Path
    model: Any
    metrics: dict[str, float]


def train(*, quiet: bool = False, **options: Any) -> Run:
    """`vitrail train` in Python: the same options by the same names, such as train(data="digits", epochs=5)."""
    if isinstance(options.get("image_size"), int):
        options["image_size"] = (options["image_size"],)
    for name in ("data", "out", "weights"):
        if isinstance(options.get(name), Path):
            options[name] = str(options[name])
    return run_training(from_record(TrainOptions, options, what="train"), given=options.keys(), quiet=quiet)


def run_training(options: TrainOptions, *, given: Set[str], quiet: bool = False) -> Run:
    """`given` names the options that the user wrote, which a resumed run checks against the stored ones."""
    check_numbers(options)
    options = spell_out(options)
    if options.resume and options.out is None:
        raise VitrailError("--resume needs --out: the folder of the run to go on with")
    bar = ProgressBar(quiet=quiet)
    folder = None if options.out is None else Path(options.out).expanduser()
    if folder is not None and options.resume and (folder / CONFIG).is_file():
        options = stored_options(folder, options, given=given)
        checkpoint = latest_state(folder / "state")
        if checkpoint is not None and read_progress(checkpoint).finished and (metrics := read_metrics(folder)):
            bar.say(f"{folder} is finished")
            return Run(path=folder, model=load(folder), metrics=metrics)
    elif folder is not None and folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise VitrailError(f"{folder}: exists and is not empty; a run is never overwritten (--resume goes on with it)")

    loaded = None if options.weights is None else load(options.weights)
    known = None if folder is None or not (folder / CONFIG).is_file() else read_bad_files(folder / BAD_FILES)
    data, bad = open_clean(
        options.data, seed=options.seed, image_size=size_of(options), limit=options.bad_files, bar=bar, known=known
    )
    options = settle(options, data, loaded=loaded)
    torch.manual_seed(options.seed)
    model = prepare_model(options, data, loaded)
    if folder is None:
        folder = new_run_folder(Path("runs") / options.task, data.name)
    folder.mkdir(parents=True, exist_ok=True)
    run = RunFolder(folder)
    describe(bar, data, options, model, folder)
    list_bad(bad, folder, bar)  # before config.yaml, which says to a resumed run that the pictures have been tried
    run.write_config(to_store(options))
    run.write_machine()

    task = Classify(
        model,
        smoothing=real(options.smoothing),
        weights=balancing_weights(options, data),
        multi_label=data.multi_label,
        device=options.device,
        compiled=options.compile,
    )
    train_pictures, validation = make_loaders(options, data, model.preprocessing, bad)
    plan = Plan(
        epochs=whole(options.epochs),
        minutes=options.minutes,
        lr=real(options.lr),
        weight_decay=real(options.weight_decay),
        warmup=real(options.warmup),
        clip=real(options.clip),
        device=options.device,
        precision=options.precision,
    )
    progress = fit(task, train_pictures, validation, plan, run, bar)
    bar.say(f"trained in {clock(progress.elapsed)}; the best epoch was {progress.best['epoch']:.0f}" if progress.best else "")
    metrics, model = finish(folder, data, options, progress, bar, bad)
    return Run(path=folder, model=model, metrics=metrics)


def make_loaders(options: TrainOptions, data: DataSet, preprocessing: Preprocessing, bad: BadFiles) -> tuple[Loader, Loader]:
    """Training pictures, shuffled and moved about, and validation pictures as they are; decoded ones are kept for next time."""
    shape, budget = (*preprocessing.size, preprocessing.channels), int(real(options.cache_gb) * 2**30)
    numbers = {name: getattr(options, name) for name in ("shift", "rotate", "zoom", "cutout", "flip")}
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
    if loaded is not None:
        # Rebuilt, because stochastic depth belongs to the recipe, not to the weights.
        model = build_model(loaded.architecture, replace(loaded.config, drop_path=options.drop_path))
        model.load_state_dict(loaded.state_dict())
        model.preprocessing, model.labels = loaded.preprocessing, loaded.labels
        if model.labels != data.classes:
            model.reset_classifier(len(data.classes), labels=data.classes)
        model.multi_label = data.multi_label
        return model.to(options.device)
    assert options.image_size is not None
    model = create_model(
        options.model,
        num_classes=len(data.classes),
        image_size=options.image_size,
        in_channels=options.in_channels,
        position=options.position,
        attention=options.attention,
        drop_path=options.drop_path,
    )
    model.labels, model.multi_label = data.classes, data.multi_label
    plain: Preprocessing = model.preprocessing
    some = spread(len(data["train"]), 1000)
    mean, std = measure(np.stack([read_fitted(data["train"], index, plain) for index in some]))
    model.preprocessing = replace(plain, mean=mean, std=std)
    return model.to(options.device)


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


def real(value: float | str) -> float:
    assert isinstance(value, int | float), value
    return value
