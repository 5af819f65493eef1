"""Options without `auto` for segmentation, the pictures with masks, and the model.

k classes
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from vitrail.data.annotations import IGNORE
from vitrail.data.bad_files import BadFile, BadFiles, find_bad, leave_out
from vitrail.data.class_colors import choose_colors, find_colors
from vitrail.data.dataset import DataSet, Split
from vitrail.data.examples import spread
from vitrail.data.formats.numbering import Numbers
from vitrail.data.images import PictureError
from vitrail.data.loading import choose_workers
from vitrail.data.masked import annotations_of, check_mask, find_bad_masks, find_masked, find_numbering, ignored_in, to_numbers
from vitrail.data.opening import divide_data
from vitrail.errors import VitrailError, check_choice
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import set_checkpointing
from vitrail.jobs.recipes import Recipe, taken_from
from vitrail.jobs.settling import LARGEST, PARTS, choose_parts, measure_on, sample_pictures, size_of
from vitrail.jobs.trades import refuse_options
from vitrail.learn.losses.segmentation import balanced_weights
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.machine import check_precision, choose_device
from vitrail.models.catalogue import ARCHITECTURES, build_model, create_model, model_config
from vitrail.models.folder import load
from vitrail.records import from_record, to_record

FEW_CELLS = 96  # pixels a side, at most, of pictures with a dozen of tokens a side
OWN_SIZE = 256  # pixels a side, at most, of pictures that are all alike and keep their size
WEIGHED = 500  # training pictures whose pixels are counted for --class-weights
UNEQUAL = 10
JITTER = 0.2
HEAD = "setr_pup"  # of an encoder that is named without a head
RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        # Up to a thousand pictures, as CamVid has: many passes, wide changes of scale. docs/log.md has the trials.
        "tiny": Recipe(epochs=60, batch=8, lr=2e-3, smoothing=0.0, zoom=0.6, drop_path=0.1, ema=0.998, optimizer="muon"),
        "small": Recipe(epochs=12, batch=8, lr=2e-3, smoothing=0.0, zoom=0.4, drop_path=0.05, ema=0.998, optimizer="muon"),
        "medium": Recipe(epochs=12, batch=32, lr=1e-3, smoothing=0.0, zoom=0.5, drop_path=0.1, ema=0.999),
        # From trained weights: gentle with the lower blocks.
        "finetune": Recipe(epochs=40, batch=8, lr=5e-4, warmup=0.1, smoothing=0.0, zoom=0.5, drop_path=0.1, layer_decay=0.8, ema=0.998),
        # Crops alone: the baseline to compare with.
        "plain": Recipe(epochs=40, batch=16, lr=1e-3, smoothing=0.0),
    }
)  # fmt: skip
SIZES = {"tiny": 1_000, "small": 10_000}  # training pictures, at most
Counts = Callable[[], tuple[Int64[np.ndarray, "k"], Int64[np.ndarray, "k"]]]  # what `count_pixels` gives
NOT_OURS: Mapping[str, Any] = MappingProxyType({"shard": False, "merge": None, "pack": False})


def open_masked(
    source: str,
    *,
    seed: int,
    limit: float,
    progress: ProgressBar,
    image_size: tuple[int, int] | None = None,
    known: Sequence[BadFile] | None = None,
    divide: bool = True,
    val_share: float | None = None,
    ignore: Numbers | None = None,
) -> tuple[DataSet, BadFiles]:
    """Pictures with masks without those that cannot be learned from, and those; as `cleaning.open_clean`."""
    data = find_masked(source, image_size=image_size, ignore=ignore)
    bad = BadFiles(pictures=sum(map(len, data.splits.values())), limit=limit)
    if known is None:
        with progress.counting("reading every picture once") as counted:
            known = list(find_bad(data, workers=os.cpu_count() or 1, progress=counted))
        with progress.counting("reading every mask once") as counted:
            known += find_bad_masks(data, progress=counted)
    bad.files |= {file.name: file for file in known}
    bad.check()
    data = leave_out(data, bad.names("before"))
    return divide_data(data, seed=seed, val_share=val_share) if divide else data, bad


def settle_segmenting(options: TrainOptions, data: DataSet, *, counts: Counts, loaded: Any = None) -> TrainOptions:
    """The same options with every `auto` replaced. `loaded` is the model that --weights brought."""
    refuse_options(options, NOT_OURS, who="segmentation")
    train = data["train"]
    pictures = sample_pictures(train, 32)
    choices: dict[str, Any] = {"device": choose_device(options.device), "ignore_index": ignored_in(data)}
    check_precision(options.precision, choices["device"])
    whole_model = loaded is not None and loaded.architecture == "segmenter"
    size = size_of(options) or (loaded.image_size if whole_model else None) or choose_dense_size(pictures)
    choices["image_size"], choices["in_channels"] = size, options.in_channels
    if options.in_channels == "auto":
        gray = all(picture.mode == "L" for picture in pictures)
        choices["in_channels"] = (1 if gray else 3) if loaded is None else loaded.config.in_channels
    if loaded is None:
        choices["model"] = choose_segmenter(size) if options.model == "auto" else options.model
        choices["head"] = check_segmenter(choices["model"], options.head)
        choices |= choose_parts(options, choices["model"], model_config(choices["model"])[1])
    else:
        choices["head"] = options.head or (loaded.config.head if whole_model else HEAD)
    name = choices["recipe"] = choose_recipe(len(train), loaded) if options.recipe == "auto" else options.recipe
    recipe = RECIPES[check_choice("recipe for segmentation", name, RECIPES)]
    choices |= taken_from(recipe, options)
    if options.lr is None:
        choices["lr"] = recipe.lr
    if options.batch == "auto":  # at least four steps an epoch, where there are pictures enough
        choices["batch"] = max(1, min(recipe.batch, len(train) // 4))
    if options.flip is None:
        choices["flip"] = name != "plain"
    if options.jitter == "auto":
        choices["jitter"] = JITTER if choices["in_channels"] == 3 and name != "plain" else 0.0
    if options.loss == "auto":
        choices["loss"] = "ce"
    if options.class_weights == "auto":
        choices["class_weights"] = choose_weights(counts)
    if options.workers == "auto":
        choices["workers"] = choose_workers(train)
    return replace(options, **choices)


def choose_recipe(pictures: int, loaded: Any) -> str:
    if loaded is not None:
        return "finetune"
    return next((name for name, most in SIZES.items() if pictures <= most), "medium")


def choose_dense_size(pictures: Sequence[Any]) -> tuple[int, int]:
    """The pictures' own, if they are small and alike; else a square of the common shorter side, in steps of 16, 224 at most."""
    sizes = {(picture.height, picture.width) for picture in pictures}
    if len(sizes) == 1 and max(own := sizes.pop()) <= OWN_SIZE:
        return own
    shorter = int(np.median([min(picture.size) for picture in pictures]))
    return (max(16, min(LARGEST, shorter // 16 * 16)),) * 2


def choose_segmenter(size: tuple[int, int]) -> str:
    """What learned most from little data (docs/segmentation.md); of large pictures one whose stem is cheap."""
    if max(size) <= FEW_CELLS:
        return "setr_pup_vit_micro_hybrid"
    return "upernet_vit_micro_hybrid_deep" if max(size) <= OWN_SIZE else "setr_pup_vit_tiny_patch16_224"


def check_segmenter(name: str, head: str | None) -> str:
    """The head of a name: that of a segmenter, unless another is asked for, or one for an encoder."""
    architecture, config = model_config(name)
    takes = ARCHITECTURES[architecture].takes
    if takes not in ("segmentation", "pictures"):
        raise VitrailError(f"--model {name}: neither a segmenter nor an encoder of pictures; setr_pup_vit_micro_hybrid is one")
    return head or (config.head if takes == "segmentation" else HEAD)


def load_encoder(options: TrainOptions) -> Any:
    """The model of --weights: a segmenter whole, of all others what has features of pictures; None without --weights."""
    return None if options.weights is None else load(options.weights)


def prepare_segmenter(options: TrainOptions, data: DataSet, loaded: Any) -> Any:
    """A new model with preprocessing measured on the training pictures, or the loaded one with a head that fits."""
    model = build_segmenter(options, data, loaded)
    if options.checkpointing:
        set_checkpointing(model)
    if options.freeze == "encoder":
        model.freeze_encoder()
    numbering = find_numbering(data["train"])
    model.config = replace(model.config, values=None if numbering is None else numbering.values)
    model.labels = data.classes
    model.colors = find_colors(data["train"], len(data.classes)) or choose_colors(data.classes)
    if loaded is None:
        model.preprocessing = measure_on(data["train"], model.preprocessing)
    model.preprocessing = replace(model.preprocessing, fit="squash")  # what stands alone is never cut
    return model.to(options.device)


def build_segmenter(options: TrainOptions, data: DataSet, loaded: Any) -> Any:
    """The only place that knows how segmenters are made."""
    from vitrail.models.segmenter import SegmenterConfig, segmenter_on

    settings: dict[str, Any] = {"image_size": options.image_size, "in_channels": options.in_channels}
    classes, head = len(data.classes), str(options.head)
    if loaded is not None:
        size, channels = tuple(loaded.image_size), loaded.config.in_channels
        same = (size, channels) == (options.image_size, options.in_channels) and loaded.architecture == "segmenter"
        if same and loaded.config.head == head:
            if loaded.labels != data.classes:
                loaded.reset_classifier(classes, labels=data.classes)
            return loaded
        return segmenter_on(loaded, head=head, num_classes=classes, **settings)
    architecture, config = model_config(options.model)
    parts = {name: getattr(options, name) for name in PARTS if hasattr(config, name)}
    if getattr(config, "drop_path", None) is not None:  # a recipe asks for it; a convolutional net has none
        parts["drop_path"] = options.drop_path
    if architecture == "segmenter":
        return create_model(options.model, num_classes=classes, head=head, **settings, **parts)
    record = {"network": architecture, "backbone": to_record(config) | parts, "head": head, "num_classes": classes}
    return build_model("segmenter", from_record(SegmenterConfig, record | settings, what=f"{head} on {options.model}"))


def counts_of(data: DataSet) -> Counts:
    """Of the training pictures, whose masks are read when it is first asked for, and only then."""
    return cache(partial(count_pixels, data["train"], len(data.classes)))


def pixel_weights(options: TrainOptions, counts: Counts) -> Tensor | None:
    """What a pixel of each class counts, by the masks of some training pictures; None: all alike."""
    if options.class_weights == "none":
        return None
    weights = torch.from_numpy(balanced_weights(*counts()))
    return weights.sqrt() if options.class_weights == "softened" else weights


def choose_weights(counts: Counts) -> str:
    """Softened where a class has UNEQUAL times the pixels of another: else what is rare is never said (docs/segmentation.md)."""
    pixels, _ = counts()
    met = pixels[pixels > 0]
    return "softened" if len(met) and met.max() > UNEQUAL * met.min() else "none"


def count_pixels(train: Split, classes: int) -> tuple[Int64[np.ndarray, "k"], Int64[np.ndarray, "k"]]:
    """The pixels of each class in some of the pictures, and all pixels of those that it is in."""
    pixels, around = np.zeros(classes, dtype=np.int64), np.zeros(classes, dtype=np.int64)
    for index in spread(len(train), WEIGHED):
        try:
            mask = check_mask(annotations_of(train, index), train.name(index), (1, 1), classes=classes)
        except PictureError:  # gone since it was looked at
            continue
        numbers = to_numbers(mask)
        counts = np.bincount(numbers[numbers != IGNORE], minlength=classes)
        pixels += counts
        around[counts > 0] += counts.sum()
    return pixels, around
