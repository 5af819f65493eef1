"""Labels for the voxels of volumes: model + Dice and cross-entropy; Dice and surface distances of whole volumes, window by window.

b batch, k classes, n volumes, x y z sides of a volume
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Unpack

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Int, Integer
from torch import Tensor

from vitrail.data.volumes.parts import keep_largest
from vitrail.data.volumes.resampling import resample
from vitrail.learn.losses.dice import dice_cross_entropy
from vitrail.learn.metrics.dice import count_overlap, dice_of
from vitrail.learn.metrics.surface_distance import surface_distance
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.models.sliding_volume import stream
from vitrail.models.volume_segmenter import VolumeSegmenter
from vitrail.tasks.segment3d.data import VolumeBatch


class SegmentedVolume(NamedTuple):
    """One volume to look at."""

    number: int  # in its split
    image: Float32[np.ndarray, "x y z"]
    truth: Integer[np.ndarray, "x y z"]
    found: Integer[np.ndarray, "x y z"]
    spacing: tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class VolumeScores:
    """What a model makes of a split, one row per volume: the loss, then of each class Dice, mean and 95 % distance of the surfaces (mm), and ml
    found and true. Class 0 is the background."""

    losses: Float[np.ndarray, "n"]
    dice: Float[np.ndarray, "n k"]
    mean_distance: Float[np.ndarray, "n k"]
    most_distance: Float[np.ndarray, "n k"]
    found_ml: Float[np.ndarray, "n k"]
    truth_ml: Float[np.ndarray, "n k"]
    indices: Int[np.ndarray, "n"]
    examples: tuple[SegmentedVolume, ...] = ()

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Means over the volumes, then over the classes without the background; what is in no volume does not count."""
        found = {"loss": float(self.losses.mean()) if len(self.losses) else math.inf, "dice": mean_of(self.dice[:, 1:], 0.0)}
        for name, values in (("surface_mm", self.mean_distance), ("hausdorff95_mm", self.most_distance)):
            if np.isfinite(values[:, 1:]).any():
                found[name] = mean_of(values[:, 1:], math.nan)
        return found

    @property
    def error(self) -> float:
        """Of the mean Dice over the volumes."""
        each = [mean_of(row[None, 1:], math.nan) for row in self.dice]
        some = np.array([value for value in each if math.isfinite(value)])
        return float(some.std(ddof=1)) / math.sqrt(len(some)) if len(some) > 1 else 0.0


def mean_of(values: Float[np.ndarray, "n k"], otherwise: float) -> float:
    """Of each class over the volumes that say something of it, then over the classes."""
    columns = [column[np.isfinite(column)] for column in values.T]
    means = [float(column.mean()) for column in columns if len(column)]
    return float(np.mean(means)) if means else otherwise


class Segment3d(ForwardObjective):
    """Satisfies `learn.training.objective.Objective`."""

    name = "segment3d"
    score = "dice"
    model: VolumeSegmenter

    def __init__(
        self,
        model: VolumeSegmenter,
        *,
        overlap: float = 0.5,
        distances: bool = False,
        smoothing: float = 0.0,
        shown: Collection[int] = (),
        largest: Collection[int] | None = None,
        batch: int = 2,
        **running: Unpack[Running],
    ) -> None:
        """`distances` of surfaces take a while; of the volumes `shown` an evaluation keeps the voxels; of the classes `largest`, by default
        the model's own, only the largest part counts as found."""
        super().__init__(model, **running)
        self.overlap, self.distances, self.smoothing = overlap, distances, smoothing
        self.largest = model.config.largest if largest is None else largest
        self.shown, self.batch = frozenset(shown), batch

    def loss(self, batch: VolumeBatch) -> Tensor:
        return dice_cross_entropy(self.train_forward(batch.images), batch.classes, smoothing=self.smoothing)

    def evaluate(self, batches: Iterable[VolumeBatch]) -> VolumeScores:
        """Of whole volumes: each batch is one."""
        was_training = self.model.training
        self.model.eval()
        classes = self.model.num_classes
        rows, indices, examples = (
            [torch.empty(0, 1 + 5 * classes)],
            [torch.empty(0, dtype=torch.int64)],
            list[SegmentedVolume](),
        )
        with torch.inference_mode():
            for batch in batches:
                found, loss = self.label(batch)
                truth = batch.classes[0].cpu().numpy()
                x, y, z = batch.spacing[0].tolist()
                row = score_volume(found, truth, (x, y, z), classes=classes, distances=self.distances)
                rows.append(torch.tensor([[loss, *row]]))
                indices.append(batch.indices.cpu())
                number = int(batch.indices[0])
                if number in self.shown:
                    image = resample(batch.images[0, 0].cpu().numpy(), found.shape)
                    examples.append(SegmentedVolume(number, image, truth, found, (x, y, z)))
        self.model.train(was_training)
        every, numbers = self.world.gather_rows(torch.cat(rows), torch.cat(indices))
        losses, rest = every[:, 0].numpy(), every[:, 1:].view(-1, 5, classes).unbind(1)
        dice, mean, most, found_ml, truth_ml = (part.numpy() for part in rest)
        return VolumeScores(
            losses=losses, dice=dice, mean_distance=mean, most_distance=most, found_ml=found_ml, truth_ml=truth_ml,
            indices=numbers.numpy(), examples=tuple(sorted(examples, key=lambda one: one.number)),
        )  # fmt: skip

    def label(self, batch: VolumeBatch) -> tuple[Integer[np.ndarray, "x y z"], float]:
        """The likeliest class of each voxel of a volume, and the mean cross-entropy at the model's spacing, slab by slab."""
        volume, truth = batch.images[0], batch.classes[0]
        x, y, z = volume.shape[1:]
        whole = (int(truth.shape[0]), int(truth.shape[1]), int(truth.shape[2]))
        seen = truth if whole == (x, y, z) else torch.from_numpy(resample(truth.cpu().numpy(), (x, y, z), labels=True))
        found, total = np.empty((x, y, z), np.int16), 0.0
        slabs = stream(
            self.forward,
            lambda begin, end: volume[..., begin:end].to(self.device),
            size=(x, y, z),
            window=self.model.image_size,
            overlap=self.overlap,
            batch=self.batch,
        )
        for slab in slabs:
            scores, here = slab.scores.float(), seen[..., slab.begin : slab.end].to(self.device)
            total += float(F.cross_entropy(scores[None], here[None], reduction="sum"))
            found[..., slab.begin : slab.end] = scores.argmax(0).cpu().numpy()
        keep_largest(found, self.largest)
        return found if whole == (x, y, z) else resample(found, whole, labels=True), total / seen.numel()


def score_volume(
    found: Integer[np.ndarray, "x y z"],
    truth: Integer[np.ndarray, "x y z"],
    spacing: tuple[float, float, float],
    *,
    classes: int,
    distances: bool,
) -> list[float]:
    """Five numbers of each class: see `VolumeScores`."""
    counts = count_overlap(found, truth, classes=classes)
    mean, most = [math.nan] * classes, [math.nan] * classes
    for number in range(1, classes) if distances else ():
        mean[number], most[number] = surface_distance(found == number, truth == number, spacing)
    ml = math.prod(spacing) / 1000
    return [*dice_of(counts).tolist(), *mean, *most, *(ml * counts[1]).tolist(), *(ml * counts[2]).tolist()]
