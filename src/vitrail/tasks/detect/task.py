"""Object detection: a box around each object, and its class."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from vitrail.data.bad_files import BadFiles
from vitrail.data.box_data import count_objects, list_problems
from vitrail.data.clean import open_clean
from vitrail.data.dataset import DataSet, SplitName
from vitrail.data.loader import Loader, choose_workers
from vitrail.errors import VitrailError
from vitrail.files import write_table, write_whole
from vitrail.learn.training.world import World
from vitrail.machine import spare_memory
from vitrail.models.adapting import adapt
from vitrail.models.backbones import backbone_of
from vitrail.models.catalogue import ARCHITECTURES, create_model, model_config, rebuild
from vitrail.models.detr import Detector, DetectorConfig, detector_on
from vitrail.models.folder import load
from vitrail.tasks.card import Card
from vitrail.tasks.detect.card import describe_detector
from vitrail.tasks.detect.data import BoxBatch, box_loaders, labels_of, renumber, scoring_loader
from vitrail.tasks.detect.metrics import METRICS
from vitrail.tasks.detect.objective import Detect, Detections, coco_results
from vitrail.tasks.detect.options import RECIPES, Options
from vitrail.tasks.image_task import (
    SMALL,
    ImageTask,
    choose_channels,
    choose_parts,
    chosen_parts,
    clean_arguments,
    describe_data,
    describe_model,
    describe_weights,
    measure_on,
    sample_images,
)
from vitrail.tasks.options import as_size, from_recipe, spell
from vitrail.tasks.stages import Baseline, Log, Opened, Opening, Resolved, Scored, Setup, Summary
from vitrail.tasks.task import count_splits, describe_recipe

AREA = 320 * 240  # pixels that are chosen for large images, in their own aspect
STEP, ENCODER_STEP = 16, 32  # sides are multiples of it, as patches need; of an encoder that may merge them, of more
STEPS = 16  # an epoch has at least so many, where there are images enough
OF_BACKBONE = frozenset({"network", "backbone", "image_size", "in_channels", "num_classes"})
CHANGES = {
    "num_queries": "queries", "denoising": "denoising", "query_kind": "query_kind", "matches_per_object": "guesses",
    "negatives": "negatives", "focal": "focal",
}  # option -> field of a detector's config that it changes  # fmt: skip
SIZES = {"tiny": 1_000, "small": 20_000}  # images, at most
COLUMNS = ("picture", "label", "score", "xmin", "ymin", "xmax", "ymax")
State = Setup[Options, DataSet, None]


class Detection(ImageTask[Options, DataSet, None, Detector]):
    recipes = RECIPES
    keeps_size = True

    def working_size(self, options: Options, images: Sequence[Image.Image]) -> tuple[int, int]:
        return as_size(options.image_size) or choose_box_size(images, step=ENCODER_STEP)

    def open(self, options: Options, opening: Opening) -> Opened[DataSet]:
        data, bad = open_clean(opening.source, boxes=True, val_share=options.val_split, **clean_arguments(options, opening))
        return Opened(data=data, bad=bad)

    def load(self, options: Options, log: Log) -> Any:
        """A detector whole, of other models the encoder, for images of the size and the channels that are asked for, if any are."""
        what, loaded = f"--weights {options.weights}", load(str(options.weights))
        size, channels = as_size(options.image_size), None if options.in_channels == "auto" else options.in_channels
        if isinstance(loaded, Detector):
            own = (loaded.image_size, loaded.config.in_channels)
            if (size or own[0], channels or own[1]) != own:
                raise VitrailError(f"{what}: a detector is continued as it is, of {own[0]} and {own[1]} channel(s)")
            return loaded
        found, notes = adapt(backbone_of(loaded, what=what), image_size=size, in_channels=channels, what=what)
        for note in notes:
            log(f"{what}: {note}")
        return found

    def resolve(
        self, options: Options, opened: Opened[DataSet], loaded: Any, resumed: Path | None
    ) -> Resolved[Options, DataSet, None]:
        data, train = opened.data, opened.data["train"]
        choices: dict[str, Any] = {}
        if loaded is None:
            choices |= choose_new_model(options, data)
        elif isinstance(loaded, Detector):
            choices["num_queries"] = loaded.config.queries
            if options.num_queries not in ("auto", loaded.config.queries):
                raise VitrailError(
                    f"--num-queries {options.num_queries}: the detector of --weights has {loaded.config.queries}"
                )
        if options.num_queries == "auto" and "num_queries" not in choices:
            most = None if loaded is None or options.query_kind in ("learned", "anchor") else count_places(loaded)
            choices["num_queries"] = choose_queries(count_objects(train), most=most)
        name: str = options.recipe
        if name == "auto":
            name = choices["recipe"] = choose_box_recipe(len(train), pretrained=loaded is not None)
        recipe = RECIPES[name]
        choices |= from_recipe(recipe, options)
        if options.lr is None:
            choices["lr"] = recipe["lr"]
        if options.batch_size == "auto":
            choices["batch_size"] = max(1, min(recipe["batch_size"], len(train) // STEPS))
        if options.flip is None:
            choices["flip"] = True
        if options.cache == "auto":
            choices["cache"] = "memory"
        if options.cache_gb == "auto":
            choices["cache_gb"] = round(spare_memory() / 4 / 2**30, 3)
        if options.workers == "auto":
            choices["workers"] = choose_workers(train)
        return Resolved(options=replace(options, **choices), data=data, extras=None, bad=opened.bad)

    def build(self, resolved: Resolved[Options, DataSet, None], loaded: Any) -> Any:
        """The detector of a name, or one on the encoder of a name or of --weights, with preprocessing measured on the training images; or
        the loaded one, for other classes if need be."""
        options, data = resolved.options, resolved.data
        changes, classes = config_changes(options), data.classes
        if loaded is not None and isinstance(loaded, Detector):
            model = rebuild(loaded, **changes)
            model.labels = loaded.labels
            if model.labels != classes:
                model.reset_classifier(len(classes), labels=classes)
        elif loaded is not None:
            model = detector_on(loaded, num_classes=len(classes), **(head_of(choose_detector(loaded.image_size)) | changes))
        else:
            model = build_new(options, classes=len(classes), changes=changes)
            model.preprocessing = measure_on(data["train"], model.preprocessing)
        model.labels = classes
        check_cells(model)
        return model

    def describe(self, setup: State) -> Iterable[str]:
        options, data, counts = setup.options, setup.data, count_objects(setup.data["train"])
        images = f"{count_splits(data.splits)} images with {counts.mean():.3g} objects each in train, {counts.max()} at most"
        yield from describe_data(data, what=f"{len(data.classes)} classes, {images}")
        if problems := list_problems(data):
            yield f"note: {len(problems):,} boxes were corrected or left out: vitrail check names them; the first: {problems[0]}"
        assert options.num_queries != "auto"
        if fuller := int((counts > options.num_queries).sum()):
            yield f"note: {fuller:,} training images have more objects than the model has queries ({options.num_queries})"
        yield describe_weights(setup)
        yield f"{describe_model(setup)}, {setup.model.config.queries} queries"
        yield describe_recipe(options)

    def objective(self, setup: State, *, device: str, world: World) -> Detect:
        return Detect(setup.model, device=device, compiled=setup.options.compile, world=world)

    def loaders(self, setup: State, world: World) -> tuple[Loader[BoxBatch], Loader[BoxBatch]]:
        assert setup.bad is not None
        return box_loaders(setup.options, setup.data, setup.model, setup.bad, world)

    def score(self, setup: State, split: str, *, device: str, world: World) -> Scored[DataSet]:
        options, data, model = setup.options, setup.data, setup.model
        workers = choose_workers(data.splits[split]) if options.workers == "auto" else options.workers  # type: ignore[index]
        assert options.batch_size != "auto"
        assert setup.bad is not None
        detections = detect_split(
            model, data, split, batch=options.batch_size, workers=workers, device=device, bad=setup.bad, world=world  # type: ignore[arg-type]
        )  # fmt: skip
        return Scored(evaluation=detections, split=split, data=data, model=model)

    def write_predictions(self, scored: Scored[DataSet], folder: Path) -> None:
        """predictions.json in COCO's format of results, and predictions.csv, a line per box."""
        found, data, labels = detections_of(scored), scored.data, labels_of(scored.model)
        images = data.splits[scored.split]  # type: ignore[index]
        numbers = [data.classes.index(label) if label in data.classes else None for label in labels]
        write_whole(folder / "predictions.json", json.dumps(coco_results(found, images, numbers)) + "\n")
        lines = (
            (images.name(int(row[0])), labels[int(row[1])], f"{row[2]:.6g}", *(f"{value:.2f}" for value in row[3:]))
            for row in found.found.tolist()
        )
        write_table(folder / "predictions.csv", [COLUMNS, *lines])

    def summarize(self, setup: State, scored: Scored[DataSet]) -> Summary:
        height, width = scored.model.image_size
        return Summary(
            details={"Images": f"{height}x{width}, {count_splits(scored.data.splits)}"},
            baseline=Baseline(0.0, "finding nothing"),
            lines=[describe_precision(scored.metrics)] if setup.evaluation is None else [],  # `eval` prints all metrics
        )

    def match(self, data: DataSet, model: Detector, options: Options) -> DataSet:
        """As it is: predictions.json has the data's own numbers of classes. The loader renumbers them."""
        renumber(data.classes, labels_of(model), where=data.name)
        return data

    def card(self, model: Detector, facts: Mapping[str, Any]) -> Card:
        return describe_detector(model)

    def stored(self, model: Detector) -> Options:
        config = model.config
        return Options(data="", image_size=model.image_size, in_channels=config.in_channels, num_queries=config.queries)


def choose_new_model(options: Options, data: DataSet) -> dict[str, Any]:
    """Size, channels, name and parts of a detector, or of the encoder of one, without weights."""
    first = sample_images(data["train"])
    by_name = options.model == "auto" or ARCHITECTURES[model_config(options.model)[0]].takes == "boxes"
    size = as_size(options.image_size) or choose_box_size(first, step=STEP if by_name else ENCODER_STEP)
    name = choose_detector(size) if options.model == "auto" else options.model
    architecture, config = model_config(name)
    takes = ARCHITECTURES[architecture].takes
    if takes not in ("boxes", "images"):
        raise VitrailError(
            f"--model {name} finds no objects, and has no features of images to find them by; {choose_detector(size)} does"
        )
    parts = choose_parts(options, name, config) if takes == "images" else refuse_parts(options, name)
    return {"image_size": size, "in_channels": choose_channels(options.in_channels, first), "model": name, **parts}


def refuse_parts(options: Options, name: str) -> dict[str, Any]:
    """A detector by name has its positions; its attention is chosen by `build_new`."""
    for part in ("position", "position_where"):
        if getattr(options, part) not in (None, "auto"):
            raise VitrailError(f"{spell(part)} {getattr(options, part)}: {name} has no {part} to choose; an encoder does")
    return {}


def choose_box_recipe(images: int, *, pretrained: bool) -> str:
    return "finetune" if pretrained else next((name for name, most in SIZES.items() if images <= most), "medium")


def choose_box_size(images: Sequence[Image.Image], *, step: int = STEP) -> tuple[int, int]:
    """The images' own size if they are small and alike; else about AREA pixels in their usual aspect, no more than they have."""
    sizes = {(image.height, image.width) for image in images}
    if len(sizes) == 1 and max(height_width := sizes.pop()) <= SMALL:
        return height_width
    height, width = (float(np.median(side)) for side in zip(*((one.height, one.width) for one in images), strict=True))
    scale = min(1.0, math.sqrt(AREA / (height * width)))
    return max(step, round(scale * height / step) * step), max(step, round(scale * width / step) * step)


def choose_detector(size: tuple[int, int]) -> str:
    return "detr_micro" if max(size) <= SMALL else "detr_small"


def choose_queries(objects: np.ndarray, *, most: int | None = None) -> int:
    """Twice as many as there are objects in the fullest image, in tens: half of them may look elsewhere. At most as many as there are
    places in the image, among which they are chosen."""
    wanted = max(20, 10 * math.ceil(2 * int(objects.max(initial=1)) / 10))
    return wanted if most is None else min(wanted, most)


def count_places(backbone: Any) -> int:
    """Cells of the coarsest map of a backbone at the size that it is used at."""
    stride = backbone.feature_info[-1].stride
    return math.prod(math.ceil(side / stride) for side in backbone.image_size)


def config_changes(options: Options) -> dict[str, Any]:
    """What options change of a detector's config."""
    asked = {
        name: getattr(options, option) for option, name in CHANGES.items() if getattr(options, option) not in ("auto", None)
    }
    if options.query_kind == "learned":  # which has no boxes to begin with, unless somebody insists
        return {"denoising": 0, "guesses": 1} | asked
    return {"guesses": 1} | asked if options.query_kind == "anchor" else asked


def build_new(options: Options, *, classes: int, changes: Mapping[str, Any]) -> Any:
    """The detector of a name, or one on the encoder of a name."""
    shape: dict[str, Any] = {"image_size": options.image_size, "in_channels": options.in_channels}
    architecture, config = model_config(options.model)
    parts = chosen_parts(options, config)
    if ARCHITECTURES[architecture].takes == "boxes":
        return create_model(options.model, num_classes=classes, **shape, **parts, **changes)
    encoder = create_model(options.model, num_classes=0, **shape, **parts)
    size = as_size(options.image_size)
    assert size is not None
    return detector_on(encoder, num_classes=classes, **{**head_of(choose_detector(size)), **changes})


def head_of(name: str) -> dict[str, Any]:
    """What a detector of the catalogue has beside its backbone."""
    config = model_config(name)[1]
    return {field.name: getattr(config, field.name) for field in fields(DetectorConfig) if field.name not in OF_BACKBONE}


def check_cells(model: Detector) -> None:
    """Queries that begin at cells of the image need as many of them: refused before anything is written."""
    if model.proposals is None:
        return
    was_training = model.training
    with torch.inference_mode():
        memory = model.eval().encode(torch.zeros(1, model.config.in_channels, *model.image_size))
    model.train(was_training)
    if (cells := memory.x.shape[1]) < model.config.queries:
        height, width = model.image_size
        raise VitrailError(
            f"--num-queries {model.config.queries}: an image of {height}x{width} has {cells} places to begin at; "
            "take fewer, a larger --image-size, or --query-kind anchor"
        )


def detect_split(
    model: Detector,
    data: DataSet,
    name: SplitName,
    *,
    batch: int,
    workers: int,
    device: str,
    bad: BadFiles,
    world: World | None = None,
) -> Detections:
    """Every box that the model gives for a split; images that have become unreadable since they were tried are left out."""
    world = world or World()
    loader = scoring_loader(model, data, name, batch=batch, workers=workers, bad=bad, world=world)
    return Detect(model.to(device), device=device, world=world, by_size=True).evaluate(loader.batches())


def describe_precision(metrics: Mapping[str, float]) -> str:
    """AP 12.3 %, AP75 9.8 %, AP small ...: what the headline leaves out."""
    shown = [metric for metric in METRICS[1:] if metric.key.startswith("ap") and metric.key in metrics]
    return ", ".join(f"{metric.short} {metric.scaled(metrics[metric.key]):.1f} %" for metric in shown)


def detections_of(scored: Scored[Any]) -> Detections:
    assert isinstance(scored.evaluation, Detections)
    return scored.evaluation


TASK = Detection()
