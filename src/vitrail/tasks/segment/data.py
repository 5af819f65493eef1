"""Images with masks: opened, as batches, and how many pixels each class has.

k classes
"""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from vitrail.data.annotations import IGNORE
from vitrail.data.bad_files import BadFile, BadFiles, find_bad, leave_out
from vitrail.data.clean import Counting
from vitrail.data.dataset import DataSet, Split
from vitrail.data.dense_batches import DenseLoader, crop_loader, whole_loader
from vitrail.data.examples import spread
from vitrail.data.formats.numbering import Numbers
from vitrail.data.images import PictureError
from vitrail.data.joint import Movement
from vitrail.data.masked import annotations_of, check_mask, find_bad_masks, find_masked, to_numbers
from vitrail.data.opening import divide_data
from vitrail.errors import VitrailError
from vitrail.learn.losses.segmentation import balanced_weights
from vitrail.learn.training.world import World
from vitrail.tasks.image_task import note_bad
from vitrail.tasks.segment.options import Options

COUNTED = 500  # training images whose pixels are counted for --class-weights
UNEQUAL = 10
Counts = Callable[[], tuple[Int64[np.ndarray, "k"], Int64[np.ndarray, "k"]]]  # what `count_pixels` gives


def open_masked(
    source: str,
    *,
    seed: int,
    limit: float,
    progress: Counting,
    image_size: tuple[int, int] | None = None,
    known: Sequence[BadFile] | None = None,
    divide: bool = True,
    val_share: float | None = None,
    ignore: Numbers | None = None,
) -> tuple[DataSet, BadFiles]:
    """Images with masks without those that cannot be learned from, and those; as `data.clean.open_clean`."""
    data = find_masked(source, image_size=image_size, ignore=ignore)
    bad = BadFiles(pictures=sum(map(len, data.splits.values())), limit=limit)
    if known is None:
        with progress.counting("reading every image once") as counted:
            known = list(find_bad(data, workers=os.cpu_count() or 1, progress=counted))
        with progress.counting("reading every mask once") as counted:
            known += find_bad_masks(data, progress=counted)
    bad.files |= {file.name: file for file in known}
    bad.check()
    data = leave_out(data, bad.names("before"))
    return divide_data(data, seed=seed, val_share=val_share) if divide else data, bad


def mask_loaders(options: Options, data: DataSet, model: Any, bad: BadFiles, world: World) -> tuple[DenseLoader, DenseLoader]:
    """Crops to learn from, and whole images to validate on."""
    assert options.batch_size != "auto"
    assert options.rotate != "auto"
    assert options.zoom != "auto"
    assert options.color_jitter != "auto"
    shared: dict[str, Any] = {
        "classes": len(data.classes), "workers": options.workers, "rank": world.rank, "world": world.size,
    }  # fmt: skip
    training = crop_loader(
        data["train"],
        model.preprocessing,
        batch=options.batch_size,
        how=Movement(flip=bool(options.flip), rotate=options.rotate, color=options.color_jitter),
        zoom=options.zoom,
        seed=options.seed,
        on_bad=partial(note_bad, bad, "train"),
        **shared,
    )
    return training, whole_loader(data["val"], model.preprocessing, on_bad=partial(note_bad, bad, "val"), **shared)


def counts_of(data: DataSet) -> Counts:
    """Of the training images, whose masks are read when it is first called, and only then."""
    return cache(partial(count_pixels, data["train"], len(data.classes)))


def pixel_weights(kind: str, counts: Counts) -> Tensor | None:
    """What a pixel of each class counts, by the masks of some training images; None: all alike."""
    if kind == "none":
        return None
    weights = torch.from_numpy(balanced_weights(*counts()))
    return weights.sqrt() if kind == "softened" else weights


def choose_weights(counts: Counts) -> str:
    """Softened where a class has UNEQUAL times the pixels of another: else what is rare is never predicted (docs/tasks/segment.md)."""
    pixels, _ = counts()
    met = pixels[pixels > 0]
    return "softened" if len(met) and met.max() > UNEQUAL * met.min() else "none"


def count_pixels(train: Split, classes: int) -> tuple[Int64[np.ndarray, "k"], Int64[np.ndarray, "k"]]:
    """The pixels of each class in some of the images, and all pixels of those that it is in."""
    pixels, around = np.zeros(classes, dtype=np.int64), np.zeros(classes, dtype=np.int64)
    for index in spread(len(train), COUNTED):
        try:
            mask = check_mask(annotations_of(train, index), train.name(index), (1, 1), classes=classes)
        except PictureError:  # gone since it was tried
            continue
        numbers = to_numbers(mask)
        counts = np.bincount(numbers[numbers != IGNORE], minlength=classes)
        pixels += counts
        around[counts > 0] += counts.sum()
    return pixels, around


def check_classes(data: DataSet, model: Any) -> None:
    """Masks must number classes as the model does; those with numbers for names are taken as they are, unless the model's are, too."""
    known, found = labels_of(model), data.classes
    named = not all_numbers(found) or all_numbers(known)
    wrong = next((pair for pair in zip(found, known, strict=False) if pair[0] != pair[1]), None) if named else None
    if wrong is not None:
        raise VitrailError(f"{data.name}: its class {wrong[0]!r} has the number of {wrong[1]!r} in the model")
    if len(found) > len(known):
        raise VitrailError(
            f"{data.name}: {len(found)} classes, of which the model knows {len(known)}; --ignore-index names what is none"
        )


def ignored_by(model: Any) -> Numbers | None:
    """The numbers of masks that are no class of a model that calls its classes by numbers; None: by name."""
    labels = labels_of(model)
    return tuple(sorted(set(range(max(map(int, labels)))) - set(map(int, labels)))) if all_numbers(labels) else None


def all_numbers(names: Iterable[str]) -> bool:
    return all(name.isdigit() for name in names)


def labels_of(model: Any) -> tuple[str, ...]:
    return model.labels or tuple(map(str, range(model.num_classes)))
