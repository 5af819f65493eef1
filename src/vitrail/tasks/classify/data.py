"""Batches for a classifier, and labels numbered as it numbers them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet, Part, Split
from vitrail.data.loading import Loader
from vitrail.data.mixing import Mixing
from vitrail.data.packing import PackedLoader
from vitrail.errors import VitrailError
from vitrail.learn.losses.balance import class_weights
from vitrail.learn.training.world import World
from vitrail.tasks.classify.options import Options
from vitrail.tasks.image_task import image_loaders


def packing(model: Any) -> dict[str, Any] | None:
    """What a loader of images in their own aspect must know of the model; None where it takes all at one size."""
    if model.preprocessing.fit != "aspect":
        return None
    return {"multiple": model.size_multiple, "prefix": model.config.prefix}


def loader_for(model: Any) -> Callable[..., Loader]:
    """What makes a loader of images as the model takes them."""
    packed = packing(model)
    return Loader if packed is None else partial(PackedLoader, **packed)


def class_loaders(options: Options, data: DataSet, model: Any, bad: BadFiles, world: World) -> tuple[Loader, Loader]:
    """Images with classes, which may be mixed, balanced and repeated."""
    drawn: dict[str, Any] = {"balanced": options.balance == "sampling", "repeats": options.repeats}
    if packing(model) is not None:
        return image_loaders(options, data, model.preprocessing, bad, world, make=loader_for(model), **drawn)
    assert options.mixup != "auto"
    assert options.cutmix != "auto"
    mixing = Mixing(mixup=options.mixup, cutmix=options.cutmix)
    drawn |= {"mixing": mixing if mixing.mixup or mixing.cutmix else None, "classes": len(data.classes)}
    return image_loaders(options, data, model.preprocessing, bad, world, **drawn)


def balancing_weights(data: DataSet) -> Tensor:
    """Of each class's images in the loss."""
    return torch.from_numpy(class_weights(data["train"].labels, len(data.classes)))


def match_labels(data: DataSet, model: Any) -> DataSet:
    """The data with its labels numbered as the model numbers them."""
    labels: tuple[str, ...] | None = model.labels
    if not model.num_classes:
        raise VitrailError("this model has no classifier: it was made with num_classes=0")
    if labels is None and len(data.classes) != model.num_classes:
        raise VitrailError(
            f"{data.name}: has {len(data.classes)} classes; the model has {model.num_classes} and does not say which"
        )
    if data.multi_label != model.multi_label:
        several, one = "any number of labels per image", "one label per image"
        raise VitrailError(
            f"{data.name}: has {several if data.multi_label else one}; the model gives {several if model.multi_label else one}"
        )
    if labels is None or data.classes == labels:
        return data
    unknown = [name for name in data.classes if name not in labels]
    if unknown:
        raise VitrailError(
            f"{data.name}: the model does not know the class {unknown[0]!r}; it knows {', '.join(labels[:8])}{' …' if labels[8:] else ''}"
        )
    numbers = np.array([labels.index(name) for name in data.classes])
    splits: dict[Any, Split] = {name: renumber(split, numbers, len(labels)) for name, split in data.splits.items()}
    return DataSet(name=data.name, classes=labels, splits=splits, notes=data.notes)


def renumber(split: Split, numbers: np.ndarray, classes: int) -> Split:
    """A split whose classes another dataset counts in another order: class i becomes numbers[i] of `classes`."""
    if split.labels.ndim == 1:
        labels = numbers[split.labels]
    else:
        labels = np.zeros((len(split), classes), dtype=bool)
        labels[:, numbers] = split.labels
    return Part(split, np.arange(len(split)), labels=labels)


def leave_out_names(split: Split, names: set[str]) -> Split:
    """A split without the images of these names."""
    if not names:
        return split
    return Part(split, np.array([i for i in range(len(split)) if split.name(i) not in names], dtype=np.int64))
