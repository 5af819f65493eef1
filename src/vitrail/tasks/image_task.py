"""What tasks on images share: sizes, parts and models by name, how images reach the model, and what is said of them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from PIL import Image

from vitrail.data.augmentation import Augmentation
from vitrail.data.bad_files import BadFile, BadFiles
from vitrail.data.cache import Cache, choose_cache
from vitrail.data.dataset import DataSet, Split, SplitName, count_labels
from vitrail.data.examples import spread
from vitrail.data.findings import find_layout_faults, find_mask_labels, plural
from vitrail.data.image_source import image_loader
from vitrail.data.images import ImageError
from vitrail.data.loader import Loader, choose_workers
from vitrail.data.opening import BUILT_IN
from vitrail.data.transforms import measure, read_fitted
from vitrail.errors import VitrailError
from vitrail.learn.training.world import World
from vitrail.machine import choose_precision, spare_memory
from vitrail.models.adapting import adapt
from vitrail.models.backbones import backbone_of
from vitrail.models.catalogue import count_parameters
from vitrail.models.classifier import Classifier
from vitrail.models.folder import load
from vitrail.models.pretrained import find_packaged
from vitrail.preprocessing import Preprocessing
from vitrail.records import has_field
from vitrail.tasks.options import as_size, has_option, spell
from vitrail.tasks.stages import D, Log, M, O, Opened, Opening, Setup, X
from vitrail.tasks.task import PARTS as PARTS
from vitrail.tasks.task import Task, model_name
from vitrail.tasks.task import choose_parts as choose_parts
from vitrail.tasks.task import chosen_parts as chosen_parts
from vitrail.tasks.weights import Wanted, choose_weights, packaged_size
from vitrail.tasks.weights_options import wished

LARGEST = 224  # the side that is chosen for large images
FEW = 10  # training images of a class, below which it is named
SMALL = 64  # pixels a side, at most, of small images
PHOTOGRAPH = 48  # pixels a side, at least, of what is treated as a photograph
SMALL_DATA = 5_000  # images, at most, for which the smallest models are chosen
SAMPLE = 32  # images of a split by which sizes and channels are chosen
# Those by which no weights were chosen, until the model is chosen by them too: they are decoded once.
SAMPLED: WeakKeyDictionary[Split, list[Image.Image]] = WeakKeyDictionary()
SIZES = {"tiny": 10_000, "small": 100_000, "medium": 2_000_000}  # images, at most


class ImageTask(Task[O, D, X, M]):
    """A base for what all tasks on images do alike."""

    unit = "images"
    by_machine: ClassVar[bool] = False  # whether an `auto` precision is the machine's best
    keeps_size: ClassVar[bool] = False  # whether weights are brought to the task's size, and never the other way

    def working_size(self, options: O, images: Sequence[Image.Image]) -> tuple[int, int]:
        """The size that images have for a model without weights."""
        asked: Any = options
        return choose_size(asked.image_size, images)

    def find_weights(self, options: O, opened: Opened[D], log: Log) -> O:
        """By tasks/weights.py where weights are looked for, and the size that those of the package read."""
        asked: Any = options
        wish = wished(asked)
        packaged = None if asked.weights is None else find_packaged(asked.weights)
        if wish != "auto" and (packaged is None or asked.image_size is not None):
            return from_scratch(asked) if asked.weights is None else options
        data: Any = opened.data
        images = sample_images(data["train"])
        wanted = Wanted(
            images=len(data["train"]),
            size=self.working_size(options, images),
            fixed=self.keeps_size or asked.image_size is not None,
            classes=len(data.classes),
            minutes=asked.minutes,
            model=asked.model,
            device=asked.device,
            precision=choose_precision(asked.device) if self.by_machine and asked.precision == "auto" else asked.precision,
        )
        if packaged is not None:
            return replace(asked, image_size=packaged_size(wanted))
        chosen = None
        if are_photographs(asked.data, wanted.size, choose_channels(asked.in_channels, images)):
            chosen = choose_weights(wanted)
            log(chosen.line)
        if chosen is None or chosen.source is None:
            SAMPLED[data["train"]] = images
            return from_scratch(asked)
        return replace(asked, weights=chosen.source, image_size=chosen.size, model="auto", pretrained=None)


def from_scratch(options: Any) -> Any:
    """Without weights, of which nothing can be frozen or adapted."""
    freeze, lora = getattr(options, "freeze", "none"), getattr(options, "lora", None)
    if freeze != "none":
        raise VitrailError(f"--freeze {freeze} keeps what weights bring, and no weights were chosen: name some with --weights")
    if lora is not None:
        raise VitrailError(f"--lora {lora} adapts what weights bring, and no weights were chosen: name some with --weights")
    return replace(options, pretrained="none")


def choose_recipe(images: int, *, pretrained: bool = False) -> str:
    """The name of a recipe, by the number of training images; `pretrained`: the weights have learned before."""
    if pretrained:
        return "finetune"
    return next((name for name, most in SIZES.items() if images <= most), "large")


def load_encoder(options: Any, log: Log) -> Classifier:
    """The classifier of --weights, for images of the size and the channels that are asked for, if any are."""
    what = f"--weights {options.weights}"
    channels = None if options.in_channels == "auto" else options.in_channels
    loaded = backbone_of(load(str(options.weights)), what=what)
    found, notes = adapt(loaded, image_size=as_size(options.image_size), in_channels=channels, what=what)
    for note in notes:
        log(f"weights {options.weights}: {note}")  # which nobody may have named
    return found


def clean_arguments(options: Any, opening: Opening) -> dict[str, Any]:
    """What functions of `data.clean` are given beside the source."""
    return {
        "seed": opening.seed, "image_size": opening.image_size, "limit": options.bad_files, "progress": opening.progress,
        "known": opening.known_bad, "known_copies": opening.known_copies, "divide": opening.split,
    }  # fmt: skip


def sample_images(split: Split, wanted: int = SAMPLE) -> list[Image.Image]:
    """At most `wanted` of its images; decoded at no more than twice the side of the largest size that is chosen by itself."""
    if (found := SAMPLED.pop(split, None)) is not None:
        return found
    return [split.read(index, target=(LARGEST, LARGEST)) for index in spread(len(split), wanted)]


def choose_channels(asked: Any, images: Sequence[Image.Image]) -> int:
    """The user's, or 1 where all images are gray."""
    return (3 if any(image.mode != "L" for image in images) else 1) if asked == "auto" else int(asked)


def choose_size(asked: Sequence[int] | None, images: Sequence[Image.Image], *, pack: bool = False) -> tuple[int, int]:
    """The user's, or the images' own if they are small and alike; else the common shorter side, in steps of 16, 224 at most."""
    if (size := as_size(asked)) is not None:
        return size
    if pack:  # the area is what counts; no image of the usual one is to be shrunk, whatever the patch
        side = float(np.median([math.sqrt(image.height * image.width) for image in images]))
        step = 16 if side > SMALL else 8
        return (min(LARGEST, math.ceil(side / step) * step),) * 2
    sizes = {(image.height, image.width) for image in images}
    if len(sizes) == 1 and max(height_width := sizes.pop()) <= SMALL:
        return height_width
    shorter = int(np.median([min(image.size) for image in images]))
    if shorter <= SMALL:
        return (shorter, shorter)
    return (min(LARGEST, shorter // 16 * 16),) * 2


def are_photographs(source: str, size: tuple[int, int], channels: int) -> bool:
    """Whether images are to be treated as photographs: in color, of 48 pixels a side or more, and not drawn by a program of ours."""
    return source not in BUILT_IN and channels == 3 and min(size) >= PHOTOGRAPH


def small_patch(size: tuple[int, int]) -> int:
    """Side of the patches of small images."""
    return 2 if min(size) <= 16 else 4 if min(size) <= 32 else 8


def choose_feeding(
    options: Any, data: Any, recipe: Mapping[str, Any], shape: tuple[int, int, int], *, plain: bool, least: int = 1
) -> dict[str, Any]:
    """How images of a shape (h, w, channels) reach the model: what is `auto` of learning rate, batch (of `least` images), mirror, workers
    and cache."""
    train, choices = data["train"], dict[str, Any]()
    if options.lr is None:
        choices["lr"] = recipe["lr"]
    if options.batch_size == "auto":  # at least eight steps per epoch, where there are images enough
        choices["batch_size"] = max(least, min(recipe["batch_size"], len(train) // 8))
    if options.flip is None:
        choices["flip"] = shape[2] == 3 and not plain  # a digit or a letter is another one in the mirror
    if options.workers == "auto":
        choices["workers"] = choose_workers(train)
    return choices | choose_caching(options, data, shape)


def choose_caching(options: Any, data: Any, shape: tuple[int, int, int]) -> dict[str, Any]:
    """What is `auto` of the cache for decoded images of a shape."""
    room = round(spare_memory() / 4 / 2**30, 3) if options.cache_gb == "auto" else options.cache_gb
    choices: dict[str, Any] = {"cache_gb": room}
    if options.cache == "auto":  # both are read every epoch; test is read once
        choices["cache"] = choose_cache([data["train"], data["val"]], shape, budget=int(room * 2**30))
    return choices


def measure_on(split: Split, preprocessing: Preprocessing) -> Preprocessing:
    """With mean and deviation of the colors of its images, a thousand of them."""
    some = [read_fitted(split, index, preprocessing) for index in spread(len(split), 1000)]
    mean, std = measure(np.stack(some))
    return replace(preprocessing, mean=mean, std=std)


def known_options(
    options: Any, config: Any, names: Sequence[str], *, recipes: Iterable[Mapping[str, Any]], optional: Sequence[str]
) -> dict[str, Any]:
    """Of the options, those that this kind of model has: a convolutional net has no tokens to leave out. One of `optional` that it lacks
    is refused, unless a recipe asked for it."""
    found = {name: getattr(options, name) for name in names if has_field(config, name)}
    rows = list(recipes)
    for name in set(optional) - found.keys():
        if getattr(options, name) not in [row.get(name) for row in rows]:
            raise VitrailError(f"{spell(name)} {getattr(options, name)}: this model has no such option")
    return found


def image_loaders(
    options: Any,
    data: Any,
    preprocessing: Preprocessing,
    bad: BadFiles,
    world: World,
    *,
    make: Callable[..., Loader[Any]] = image_loader,
    **of_training: Any,
) -> tuple[Loader[Any], Loader[Any]]:
    """Training images, shuffled and augmented, and validation images as they are; decoded ones are cached.
    `make` makes a loader, `of_training` is what else that of the former is given."""
    numbers = {field.name: getattr(options, field.name) for field in fields(Augmentation) if has_option(options, field.name)}
    found: list[Loader[Any]] = []
    for name, cache in make_caches(options, data, preprocessing).items():
        split, training = data[name], name == "train"
        found.append(
            make(
                split,
                preprocessing,
                batch=options.batch_size,
                shuffle=training,
                how=Augmentation(**numbers) if training else None,
                seed=options.seed,
                workers=options.workers,
                cache=cache,
                on_bad=partial(note_bad, bad, name),
                rank=world.rank,
                world=world.size,
                **(of_training if training else {}),
            )
        )
    return found[0], found[1]


def make_caches(options: Any, data: Any, preprocessing: Preprocessing) -> dict[SplitName, Cache | None]:
    """What stores the decoded images that are read every epoch, within the room there is; training images first."""
    shape, budget = (*preprocessing.size, preprocessing.channels), int(options.cache_gb * 2**30)
    found: dict[SplitName, Cache | None] = {"train": None, "val": None}
    if options.cache in ("memory", "disk"):
        for name in found:
            cache = found[name] = Cache(len(data[name]), shape, kind=options.cache, budget=budget)
            budget -= cache.size
    return found


def plain_loader(
    setup: Setup[Any, Any, Any], split: str, world: World, *, make: Callable[..., Loader[Any]] = image_loader
) -> Loader[Any]:
    """The images of a split as they are, once; `make` makes a loader."""
    options: Any = setup.options
    images = setup.data[split]
    assert setup.bad is not None
    workers = choose_workers(images) if options.workers == "auto" else options.workers
    return make(
        images, setup.model.preprocessing, batch=options.batch_size, workers=workers,
        on_bad=partial(note_bad, setup.bad, split), rank=world.rank, world=world.size,
    )  # fmt: skip


def note_bad(bad: BadFiles | None, split: str, error: ImageError) -> None:
    """An image that could be read when the run began, and cannot any more."""
    assert bad is not None
    bad.add(BadFile(error.name, split, error.reason, "during"))


def describe_model(setup: Setup[Any, Any, Any], *, more: str = "") -> str:
    """The model and its input, in a line."""
    height, width = setup.model.image_size
    shape = f"{height}x{width}x{setup.model.config.in_channels}"
    return f"model: {model_name(setup.options)}: {count_parameters(setup.model):,} parameters{more}, images {shape}"


def describe_faults(data: DataSet, source: Path) -> Iterable[str]:
    """Of classes, a line for what of a folder was left out, for what looks wrong with it, and for classes with hardly any images."""
    root = source if source.is_dir() else None
    for finding in (*find_layout_faults(data, root), *find_mask_labels(data, root)):
        if finding.kind == "layout":
            yield f"warning: {finding.text}"
        else:
            yield f"left out: {name_some('folder', 'without images', finding.pictures)}"
    yield from (f"note: {text}" for text in name_rare(data))


def name_rare(data: DataSet) -> Iterable[str]:
    """Classes with hardly any training images, and those that are never scored."""
    if "train" not in data.splits:
        return
    counts = count_labels(data["train"].labels, len(data.classes))
    few = [
        f"{data.classes[number]} ({counts[number]})" for number in np.argsort(counts, kind="stable") if 0 < counts[number] < FEW
    ]
    if few:
        yield name_some("class", f"with fewer than {FEW} training images", few)
    for name in (name for name in ("val", "test") if name in data.splits and not data.multi_label):
        there = count_labels(data.splits[name].labels, len(data.classes))
        if missing := [data.classes[number] for number in np.flatnonzero((there == 0) & (counts > 0))]:
            yield name_some("class", f"not in {name}, so never scored there", missing)


def name_some(what: str, rule: str, names: Sequence[str], *, most: int = 3) -> str:
    """2 classes with fewer than 10 images: a, b"""
    shown = ", ".join(names[:most]) + (f" and {len(names) - most} more" if names[most:] else "")
    return f"{len(names):,} {plural(len(names), what, 'classes' if what == 'class' else None)} {rule}: {shown}"


def describe_weights(setup: Setup[Any, Any, Any]) -> str:
    """Where training begins, in a line; of a new run also why there, or under which license."""
    return setup.begins or f"weights: {setup.options.weights or 'none, it learns from scratch'}"


def describe_data(data: DataSet, *, what: str) -> Iterable[str]:
    """The data in a line, and what was decided while it was opened."""
    yield f"data: {data.name}: {what}"
    yield from (f"note: {note}" for note in data.notes)
