"""Semantic segmentation: a class for every pixel."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64
from torch import Tensor

from vitrail.data.bad_files import BadFiles
from vitrail.data.box_data import list_problems
from vitrail.data.class_colors import choose_colors, find_colors
from vitrail.data.dataset import DataSet, SplitName
from vitrail.data.examples import spread
from vitrail.data.loader import Loader, choose_workers
from vitrail.data.masked import find_numbering, ignored_in, is_mask_folder
from vitrail.errors import VitrailError
from vitrail.files import write_table
from vitrail.learn.metrics.confusion import matrix_scores
from vitrail.learn.optim.groups import first_parameters
from vitrail.learn.training.world import World
from vitrail.models.catalogue import ARCHITECTURES, build_model, count_parameters, create_model, model_config
from vitrail.models.dense_inference import Inference
from vitrail.models.folder import load
from vitrail.models.segmenter import Segmenter, SegmenterConfig, segmenter_on
from vitrail.records import from_record, to_record
from vitrail.tasks.card import Card
from vitrail.tasks.image_task import (
    LARGEST,
    ImageTask,
    choose_channels,
    choose_parts,
    chosen_parts,
    clean_arguments,
    describe_data,
    describe_weights,
    measure_on,
    note_bad,
    sample_images,
)
from vitrail.tasks.options import as_size, from_recipe
from vitrail.tasks.segment.card import describe_segmenter
from vitrail.tasks.segment.data import (
    DenseBatch,
    WholeBatch,
    check_classes,
    choose_weights,
    counts_of,
    ignored_by,
    labels_of,
    mask_loaders,
    open_masked,
    pixel_weights,
    whole_loader,
)
from vitrail.tasks.segment.objective import COLUMNS, EXAMPLES, Segment, Segmentations
from vitrail.tasks.segment.options import RECIPES, EvalOptions, Options
from vitrail.tasks.stages import Baseline, Log, Opened, Opening, Resolved, Scored, Setup, Summary
from vitrail.tasks.task import count_splits, describe_recipe, model_name

FEW_CELLS = 96  # pixels a side, at most, of images with a dozen of tokens a side
OWN_SIZE = 256  # pixels a side, at most, of images that are all alike and keep their size
JITTER = 0.2
HEAD = "setr_pup"  # of an encoder that is named without a head
SIZES = {"tiny": 1_000, "small": 10_000}  # training images, at most
BATCH = 8  # images of one size that the model sees at a time when it is scored
State = Setup[Options, DataSet, Tensor | None]


class Segmentation(ImageTask[Options, DataSet, Tensor | None, Segmenter]):
    """What it needs beside options, data and model: what a pixel of each class counts in the loss."""

    recipes = RECIPES
    keeps_size = True

    def working_size(self, options: Options, images: Sequence[Any]) -> tuple[int, int]:
        return as_size(options.image_size) or choose_dense_size(images)

    def open(self, options: Options, opening: Opening) -> Opened[DataSet]:
        arguments = clean_arguments(options, opening)
        data, bad = open_masked(opening.source, val_share=options.val_split, ignore=options.ignore_index, **arguments)
        return Opened(data=data, bad=bad)

    def load(self, options: Options, log: Log) -> Any:
        """A segmenter whole, of all others what has features of images."""
        return load(str(options.weights))

    def resolve(
        self, options: Options, opened: Opened[DataSet], loaded: Any, resumed: Path | None
    ) -> Resolved[Options, DataSet, Tensor | None]:
        data, counts = opened.data, counts_of(opened.data)
        images = sample_images(data["train"])
        choices: dict[str, Any] = {"ignore_index": ignored_in(data)}
        own = loaded if loaded is not None and loaded.architecture == "segmenter" else None
        size = as_size(options.image_size) or (None if own is None else own.image_size) or choose_dense_size(images)
        channels = options.in_channels
        if channels == "auto":
            channels = choose_channels("auto", images) if loaded is None else loaded.config.in_channels
        choices |= {"image_size": size, "in_channels": channels}
        if loaded is None:
            name = choices["model"] = choose_segmenter(size) if options.model == "auto" else options.model
            choices["head"] = choose_head(name, options.head)
            choices |= choose_parts(options, name, model_config(name)[1])
        else:
            choices["head"] = options.head or (HEAD if own is None else own.config.head)
        choices |= self.choose_learning(options, len(data["train"]), channels=channels, pretrained=loaded is not None)
        if options.class_weights == "auto":
            choices["class_weights"] = choose_weights(counts)
        if options.workers == "auto":
            choices["workers"] = choose_workers(data["train"])
        options = replace(options, **choices)
        weights = pixel_weights(options.class_weights, counts)
        return Resolved(options=options, data=data, extras=weights, bad=opened.bad)

    def choose_learning(self, options: Options, images: int, *, channels: int, pretrained: bool) -> dict[str, Any]:
        """The recipe, and what it says of the options that are `auto`."""
        name = choose_dense_recipe(images, pretrained=pretrained) if options.recipe == "auto" else options.recipe
        recipe = RECIPES[name]
        choices: dict[str, Any] = {"recipe": name, **from_recipe(recipe, options)}
        if options.lr is None:
            choices["lr"] = recipe["lr"]
        if options.batch_size == "auto":  # at least four steps per epoch, where there are images enough
            choices["batch_size"] = max(1, min(recipe["batch_size"], images // 4))
        if options.flip is None:
            choices["flip"] = name != "plain"
        if options.color_jitter == "auto":
            choices["color_jitter"] = JITTER if channels == 3 and name != "plain" else 0.0
        if options.loss == "auto":
            choices["loss"] = "ce"
        return choices

    def build(self, resolved: Resolved[Options, DataSet, Tensor | None], loaded: Any) -> Any:
        """A new model with preprocessing measured on the training images, or the loaded one with a head that fits."""
        options, data = resolved.options, resolved.data
        model = build_new(options, len(data.classes)) if loaded is None else adapt_loaded(options, data, loaded)
        if options.freeze == "encoder":
            model.freeze_encoder()
        elif options.freeze != "none":
            model.backbone.freeze_parameters(first_parameters(model.backbone, options.freeze))
        numbering = find_numbering(data["train"])
        model.config = replace(model.config, values=None if numbering is None else numbering.values)
        model.labels = data.classes
        model.colors = find_colors(data["train"], len(data.classes)) or choose_colors(data.classes)
        if loaded is None:
            model.preprocessing = measure_on(data["train"], model.preprocessing)
        model.preprocessing = replace(model.preprocessing, fit="squash")  # what stands alone is never cropped
        return model

    def describe(self, setup: State) -> Iterable[str]:
        options, data, model = setup.options, setup.data, setup.model
        yield from describe_data(data, what=f"{len(data.classes)} classes, {count_splits(data.splits)} images with masks")
        if (problems := list_problems(data)) and not is_mask_folder(data):  # whose are in the list of bad files
            yield f"note: {len(problems):,} outlines were corrected or left out: vitrail check names them; the first: {problems[0]}"
        shape = "x".join(map(str, (*model.image_size, model.config.in_channels)))
        yield describe_weights(setup)
        yield f"model: {model_name(options)}: {count_parameters(model):,} parameters, head {options.head}, crops of {shape}"
        yield describe_recipe(options)

    def objective(self, setup: State, *, device: str, world: World) -> Segment:
        options = setup.options
        assert options.loss != "auto"
        assert options.label_smoothing != "auto"
        return Segment(
            setup.model, kind=options.loss, weights=setup.extras, smoothing=options.label_smoothing, device=device,
            compiled=options.compile, world=world,
        )  # fmt: skip

    def loaders(self, setup: State, world: World) -> tuple[Loader[DenseBatch], Loader[WholeBatch]]:
        assert setup.bad is not None
        return mask_loaders(setup.options, setup.data, setup.model, setup.bad, world)

    def score(self, setup: State, split: str, *, device: str, world: World) -> Scored[DataSet]:
        """Every image of a split, whole or in windows, at several scales and mirrored as `vitrail eval` is asked to."""
        options, asked, model = setup.options, setup.evaluation, setup.model
        workers, batch, how = 0 if options.workers == "auto" else options.workers, BATCH, Inference()
        if isinstance(asked, EvalOptions):
            batch = min(BATCH, asked.batch_size)
            how = Inference(window=asked.window, scales=asked.scales or (1.0,), flip=asked.flip_test)
        assert setup.bad is not None
        found = segment_split(
            model, setup.data, split, device=device, bad=setup.bad, workers=workers, world=world, how=how, batch=batch  # type: ignore[arg-type]
        )  # fmt: skip
        if asked is not None and not len(found.rows):
            raise VitrailError(f"{setup.data.name}: no image of {split} could be scored")
        return Scored(evaluation=found, split=split, data=setup.data, model=model)

    def write_predictions(self, scored: Scored[DataSet], folder: Path) -> None:
        """predictions.csv, a line per image, and classes.csv, a line per class."""
        found, images = segmentations_of(scored), scored.data.splits[scored.split]  # type: ignore[index]
        names = [images.name(index) for index in found.indices.tolist()]
        lines = ((name, *(f"{value:.6g}" for value in row)) for name, row in zip(names, found.rows, strict=True))
        write_table(folder / "predictions.csv", [("picture", *COLUMNS), *lines])
        scores = matrix_scores(found.matrix)
        columns = (found.iou, scores.recall, scores.precision, found.boundary, scores.support)
        table = zip(labels_of(scored.model), *columns, strict=True)
        written = ((label, *(f"{value:.6g}" for value in row), str(pixels)) for label, *row, pixels in table)
        write_table(folder / "classes.csv", [("class", "iou", "recall", "precision", "boundary_f", "pixels"), *written])

    def summarize(self, setup: State, scored: Scored[DataSet]) -> Summary:
        return Summary(
            details={"Images": count_splits(scored.data.splits)},
            lines=[describe_weakest(segmentations_of(scored), labels_of(scored.model))],
            baseline=find_baseline(segmentations_of(scored).matrix, labels_of(scored.model)),
            constant=find_constant(segmentations_of(scored).matrix, labels_of(scored.model)),
        )

    def match(self, data: DataSet, model: Segmenter, options: Options) -> DataSet:
        check_classes(data, model)
        return data

    def card(self, model: Segmenter, facts: Mapping[str, Any]) -> Card:
        return describe_segmenter(model)

    def stored(self, model: Segmenter) -> Options:
        return Options(
            data="", image_size=model.image_size, in_channels=model.config.in_channels, head=model.config.head,
            ignore_index=ignored_by(model),
        )  # fmt: skip


def choose_dense_recipe(images: int, *, pretrained: bool) -> str:
    return "finetune" if pretrained else next((name for name, most in SIZES.items() if images <= most), "medium")


def choose_dense_size(images: Sequence[Any]) -> tuple[int, int]:
    """The images' own, if they are small and alike; else a square of the common shorter side, in steps of 16, 224 at most."""
    sizes = {(image.height, image.width) for image in images}
    if len(sizes) == 1 and max(own := sizes.pop()) <= OWN_SIZE:
        return own
    shorter = int(np.median([min(image.size) for image in images]))
    return (max(16, min(LARGEST, shorter // 16 * 16)),) * 2


def choose_segmenter(size: tuple[int, int]) -> str:
    """What learned most from little data (docs/tasks/segment.md); of large images one whose stem is cheap."""
    if max(size) <= FEW_CELLS:
        return "setr_pup_vit_micro_hybrid"
    return "upernet_vit_micro_hybrid_deep" if max(size) <= OWN_SIZE else "setr_pup_vit_tiny_patch16_224"


def choose_head(name: str, head: str | None) -> str:
    """The head of a name: that of a segmenter, unless another is asked for, or one for an encoder."""
    architecture, config = model_config(name)
    takes = ARCHITECTURES[architecture].takes
    if takes not in ("segmentation", "images"):
        raise VitrailError(f"--model {name}: neither a segmenter nor an encoder of images; setr_pup_vit_micro_hybrid is one")
    return head or (config.head if takes == "segmentation" else HEAD)


def build_new(options: Options, classes: int) -> Any:
    """The segmenter of a name, or one on the encoder of a name."""
    architecture, config = model_config(options.model)
    head, settings = str(options.head), shape_of(options)
    parts = chosen_parts(options, config)
    if getattr(config, "drop_path", None) is not None:  # a recipe asks for it; a convolutional net has none
        parts["drop_path"] = options.drop_path
    if architecture == "segmenter":
        return create_model(options.model, num_classes=classes, head=head, **settings, **parts)
    record = {"network": architecture, "backbone": to_record(config) | parts, "head": head, "num_classes": classes}
    return build_model("segmenter", from_record(SegmenterConfig, record | settings, what=f"{head} on {options.model}"))


def adapt_loaded(options: Options, data: DataSet, loaded: Any) -> Any:
    """A segmenter as it is where it fits, for other classes if need be; else a new head on the encoder."""
    settings, head, classes = shape_of(options), str(options.head), len(data.classes)
    own = {"image_size": tuple(loaded.image_size), "in_channels": loaded.config.in_channels}
    if loaded.architecture == "segmenter" and own == settings and loaded.config.head == head:
        if loaded.labels != data.classes:
            loaded.reset_classifier(classes, labels=data.classes)
        return loaded
    return segmenter_on(loaded, head=head, num_classes=classes, **settings)


def shape_of(options: Options) -> dict[str, Any]:
    return {"image_size": options.image_size, "in_channels": options.in_channels}


def segment_split(
    model: Segmenter, data: DataSet, name: SplitName, *, device: str, bad: BadFiles, workers: int = 0, world: World | None = None,
    how: Inference | None = None, batch: int = BATCH,
) -> Segmentations:  # fmt: skip
    """Every image of a split, boundaries too."""
    world = world or World()
    images = whole_loader(
        data[name], model.preprocessing, classes=model.num_classes, batch=batch, workers=workers,
        on_bad=partial(note_bad, bad, name), rank=world.rank, world=world.size,
    )  # fmt: skip
    shown = spread(len(data[name]), EXAMPLES)
    objective = Segment(model.to(device), how=how, edges=True, shown=shown, device=device, world=world)
    return objective.evaluate(images.batches())


def describe_weakest(found: Segmentations, labels: tuple[str, ...]) -> str:
    """The class with the lowest IoU, in a line."""
    weakest = int(np.where(np.isnan(found.iou), np.inf, found.iou).argmin())
    accuracy, iou = 100 * found.metrics["pixel_accuracy"], 100 * found.iou[weakest]
    return f"pixel accuracy {accuracy:.2f} %; the weakest class is {labels[weakest]}, IoU {iou:.2f} %"


def find_baseline(matrix: Int64[np.ndarray, "k k"], labels: Sequence[str]) -> Baseline | None:
    """The mean IoU of naming the commonest class in every pixel."""
    pixels = matrix.sum(axis=1)
    if not pixels.any():
        return None
    share = float(pixels.max() / pixels.sum())
    return Baseline(share / int((pixels > 0).sum()), f"naming {labels[int(pixels.argmax())]} everywhere")


def find_constant(matrix: Int64[np.ndarray, "k k"], labels: Sequence[str]) -> str:
    """The class that alone was predicted, in images of several."""
    predicted = np.flatnonzero(matrix.sum(axis=0))
    return labels[int(predicted[0])] if len(predicted) == 1 and (matrix.sum(axis=1) > 0).sum() > 1 else ""


def segmentations_of(scored: Scored[Any]) -> Segmentations:
    assert isinstance(scored.evaluation, Segmentations)
    return scored.evaluation


TASK = Segmentation()
