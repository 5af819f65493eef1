"""Features of images as a table: each image is read once, whatever parts of the data ask for it.

b batch, ch channels, h w image, p images, d width
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import Part, Split
from vitrail.data.image_source import image_loader
from vitrail.data.loader import choose_workers
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.models.backbones import mean_features
from vitrail.preprocessing import Preprocessing
from vitrail.tasks.image_task import note_bad

LARGEST = 32  # pixels a side that neighbors of plain images are sought by


class Described(NamedTuple):
    """Images of a split by their features; those that cannot be read any more are left out."""

    features: Float[Tensor, "p d"]
    labels: Int[Tensor, "p"]
    names: list[str]


class FeatureTable:
    """What `describe` makes of images, kept."""

    def __init__(
        self,
        describe: Callable[[Float[Tensor, "b ch h w"]], Float[Tensor, "b d"]],
        preprocessing: Preprocessing,
        *,
        what: str,
        batch: int,
        workers: int | str,
        bad: BadFiles,
        bar: ProgressBar,
    ) -> None:
        self.describe, self.what, self.batch, self.workers, self.bad, self.bar = describe, what, batch, workers, bad, bar
        self.preprocessing = replace(preprocessing, fit="squash") if preprocessing.fit == "aspect" else preprocessing
        self.kept: dict[int, tuple[Split, Tensor, np.ndarray]] = {}  # of each undivided split: features, and which are known

    def of(self, split: Split) -> Described:
        """Only what nobody has asked for before is computed."""
        root, numbers = find_root(split)
        _, features, known = self.kept.get(id(root), (root, torch.empty(0), np.zeros(len(root), dtype=bool)))
        missing = numbers[~known[numbers]]
        if len(missing):
            features = self.fill(Part(root, missing), missing, len(root), features, known)
            self.kept[id(root)] = (root, features, known)  # with the split itself: an id is one's own while one lives
        read = np.flatnonzero(known[numbers])
        return Described(
            features[torch.from_numpy(numbers[read])],
            torch.from_numpy(split.labels[read]),
            [split.name(int(index)) for index in read],
        )

    @torch.no_grad()
    def fill(self, part: Split, numbers: np.ndarray, count: int, features: Tensor, known: np.ndarray) -> Tensor:
        """Compute the features of `part`, which are the `numbers` of `count` images, and mark them in `known`."""
        workers = choose_workers(part) if self.workers == "auto" else int(self.workers)
        loader = image_loader(
            part, self.preprocessing, batch=self.batch, workers=workers, on_bad=partial(note_bad, self.bad, "features")
        )
        with self.bar.counting(f"{self.what} of images") as progress:
            for done, batch in enumerate(loader.batches(), start=1):
                found = self.describe(batch.images).float().cpu()
                if not len(features):
                    features = torch.zeros(count, found.shape[1])
                rows = numbers[batch.indices.numpy()]
                features[torch.from_numpy(rows)] = found
                known[rows] = True
                progress(min(done * self.batch, len(part)), len(part))
        return features


def find_root(split: Split) -> tuple[Split, np.ndarray]:
    """The split that a part was taken from in the end, and the part's numbers there."""
    numbers = np.arange(len(split))
    while isinstance(split, Part):
        numbers, split = split.indices[numbers], split.whole
    return split, numbers


def describe_by(backbone: Any, device: str) -> Callable[[Float[Tensor, "b ch h w"]], Float[Tensor, "b d"]]:
    """What a backbone makes of images, without learning."""
    backbone = backbone.to(device).eval()
    return lambda images: mean_features(backbone, images.to(device))


def pixel_preprocessing(preprocessing: Preprocessing) -> Preprocessing:
    """The same for plain images: no larger than neighbors can be sought by."""
    height, width = preprocessing.size
    return replace(preprocessing, size=(min(height, LARGEST), min(width, LARGEST)))
