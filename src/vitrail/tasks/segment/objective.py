"""The objective of semantic segmentation: model + loss of its maps, scored over all pixels of a split.

b batch, ch channels, h w what the model sees, p q the image as it is stored, k classes, n images
"""

import heapq
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int64, UInt8
from torch import Tensor, nn

from vitrail.data.annotations import IGNORE
from vitrail.data.transforms import to_bytes
from vitrail.learn.losses.segmentation import SegmentationLoss, segmentation_loss
from vitrail.learn.metrics.segmentation import (
    BoundaryScore,
    intersection_over_union,
    mean_iou,
    pixel_accuracy,
    pixel_confusion,
)
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.learn.training.sharding import for_training
from vitrail.learn.training.world import World
from vitrail.models.dense_inference import Inference, infer, name_pixels
from vitrail.models.segmenter import Segmenter
from vitrail.preprocessing import Preprocessing
from vitrail.tasks.segment.data import DenseBatch, WholeBatch, WholeImage

AUXILIARY = 0.4  # what an auxiliary head's loss counts  [Zhao+ 2017, section 3.3]
COLUMNS = ("loss", "miou", "pixel_accuracy", "boundary")
EXAMPLES, WORST = 8, 8
SHOWN = 384  # pixels of the longer side of what is kept to be looked at


@dataclass(frozen=True, kw_only=True)
class SegmentedExample:
    """One image, its mask and the prediction; `truth` has IGNORE where there is no class."""

    name: str
    image: UInt8[np.ndarray, "h w ch"]
    truth: Int64[np.ndarray, "h w"]
    predicted: Int64[np.ndarray, "h w"]
    score: float  # its mean IoU


@dataclass(frozen=True, kw_only=True)
class Segmentations:
    """What a model makes of a split: the matrix over all pixels, a row for each image, and some images to look at."""

    matrix: Int64[np.ndarray, "k k"]
    rows: Float[np.ndarray, "n 4"]
    indices: Int[np.ndarray, "n"]
    boundary: Float[np.ndarray, "k"]  # NaN where it was not measured
    examples: tuple[SegmentedExample, ...] = ()
    worst: tuple[SegmentedExample, ...] = ()  # the worst first

    @cached_property
    def iou(self) -> Float[np.ndarray, "k"]:
        return intersection_over_union(self.matrix)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Over all pixels of the split at once, but for the loss and the edges, which are means over images and classes."""
        found = {
            "loss": float(np.nanmean(self.rows[:, 0])) if len(self.rows) else math.nan,
            "miou": mean_iou(self.matrix),
            "pixel_accuracy": pixel_accuracy(self.matrix),
        }
        if not np.isnan(self.boundary).all():
            found["boundary_f"] = float(np.nanmean(self.boundary))
        return found

    @property
    def error(self) -> float:
        """None to speak of: the same images every time."""
        return 0.0


class Segment(ForwardObjective):
    """Satisfies the training loop's Objective protocol."""

    name = "segment"
    model: Segmenter
    score = "miou"

    def __init__(
        self,
        model: Segmenter,
        *,
        kind: SegmentationLoss = "ce",
        weights: Float[Tensor, "k"] | None = None,
        smoothing: float = 0.0,
        how: Inference | None = None,
        edges: bool = False,
        shown: Collection[int] = range(EXAMPLES),
        **running: Unpack[Running],
    ) -> None:
        """`edges`: whether boundaries are measured too, which takes as long as a small model. `shown`: numbers of images to look at."""
        super().__init__(model, **running)
        self.kind, self.smoothing, self.edges, self.shown = kind, smoothing, edges, frozenset(shown)
        self.how = how or Inference()
        self.weights = None if weights is None else weights.to(self.device)
        learning: Any = WithAuxiliary(model) if len(model.auxiliary) else model
        self.learning = torch.compile(learning) if running.get("compiled") else learning

    @cached_property
    def train_forward(self) -> Callable[[Tensor], Any]:
        """With several processes, the model whose backward pass averages their gradients."""
        return for_training(self.learning, self.model, self.world)

    def loss(self, batch: DenseBatch) -> Tensor:
        """L(logits) + 0.4 sum_j L(logits of the auxiliary head j), where there are such heads."""
        output = self.train_forward(batch.images)
        logits, others = output if isinstance(output, tuple) else (output, ())
        return self.distance(logits, batch) + AUXILIARY * sum(self.distance(other, batch) for other in others)

    def distance(self, logits: Float[Tensor, "b k h w"], batch: DenseBatch) -> Tensor:
        return segmentation_loss(logits, batch.masks, kind=self.kind, weights=self.weights, smoothing=self.smoothing)

    def evaluate(self, batches: Iterable[WholeBatch]) -> Segmentations:
        was_training = self.model.training
        self.model.eval()
        found = Tally(self.model.num_classes, self.model.preprocessing, edges=self.edges, shown=self.shown)
        with torch.inference_mode():
            for batch in batches:
                for group in alike(batch.images):
                    images = torch.cat([one.image for one in group]).to(self.device)
                    probabilities = infer(self.forward, images, self.how).cpu()
                    for one, output in zip(group, probabilities, strict=True):
                        found.add(one, output)
        self.model.train(was_training)
        return found.gather(self.world)


class WithAuxiliary(nn.Module):
    """A segmenter that also gives the logits of its auxiliary heads."""

    def __init__(self, model: Segmenter) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Float[Tensor, "b ch h w"]) -> tuple[Tensor, tuple[Tensor, ...]]:
        found: tuple[Tensor, tuple[Tensor, ...]] = self.model.forward_training(images)
        return found


class Tally:
    """What is counted image by image, in memory that does not grow with the split but for a row for each image."""

    def __init__(self, classes: int, preprocessing: Preprocessing, *, edges: bool, shown: Collection[int]) -> None:
        self.classes, self.preprocessing, self.shown = classes, preprocessing, shown
        self.matrix = np.zeros((classes, classes), dtype=np.int64)
        self.edges = BoundaryScore(classes) if edges else None
        self.rows, self.indices = list[list[float]](), list[int]()
        self.examples = list[SegmentedExample]()
        self.worst = list[tuple[float, int, SegmentedExample]]()  # a heap, the best of the worst first

    def add(self, sample: WholeImage, probabilities: Float[Tensor, "k h w"]) -> None:
        truth = sample.mask.numpy()
        predicted = name_pixels(probabilities, (truth.shape[0], truth.shape[1]))[0].numpy()
        matrix = pixel_confusion(truth, predicted, self.classes)
        self.matrix += matrix
        score = mean_iou(matrix)
        edge = math.nan if self.edges is None else self.edges.add(truth, predicted)
        self.rows.append([surprise(probabilities, sample.mask), score, pixel_accuracy(matrix), edge])
        self.indices.append(sample.number)
        full, shown = len(self.worst) == WORST, sample.number in self.shown
        if shown or not full or -score > self.worst[0][0]:
            example = show(sample, predicted, self.preprocessing, score)
            if shown:
                self.examples.append(example)
            entry = (-score, -sample.number, example)
            heapq.heappushpop(self.worst, entry) if full else heapq.heappush(self.worst, entry)

    def gather(self, world: World) -> Segmentations:
        """Of all processes together."""
        rows = torch.tensor(self.rows, dtype=torch.float64).reshape(-1, len(COLUMNS))
        rows, indices = world.gather_rows(rows, torch.tensor(self.indices, dtype=torch.int64))
        sums = np.zeros((2, self.classes)) if self.edges is None else np.stack([self.edges.sums, self.edges.counts])
        counted = np.concatenate([self.matrix.ravel(), sums.ravel()]).astype(np.float64)
        total = world.size * np.array(world.mean(counted.tolist()))
        matrix, sums = total[: self.classes**2], total[self.classes**2 :].reshape(2, self.classes)
        boundary = np.divide(sums[0], sums[1], out=np.full(self.classes, np.nan), where=sums[1] > 0)
        return Segmentations(
            matrix=matrix.round().astype(np.int64).reshape(self.classes, self.classes),
            rows=rows.numpy(),
            indices=indices.numpy(),
            boundary=boundary,
            examples=tuple(self.examples),
            worst=tuple(example for *_, example in sorted(self.worst, key=lambda entry: (-entry[0], -entry[1]))),
        )


def alike(samples: list[WholeImage]) -> list[list[WholeImage]]:
    """Images that the model can see together: of one size."""
    groups: dict[tuple[int, ...], list[WholeImage]] = {}
    for sample in samples:
        groups.setdefault(tuple(sample.image.shape), []).append(sample)
    return list(groups.values())


def surprise(probabilities: Float[Tensor, "k h w"], mask: Int[Tensor, "p q"]) -> float:
    """-mean log p of the true classes, at the size that the model sees; NaN where no pixel has a class."""
    small = F.interpolate(mask[None, None].double(), size=tuple(probabilities.shape[1:]), mode="nearest-exact")[0, 0].long()
    known = small != IGNORE
    if not bool(known.any()):
        return math.nan
    own = probabilities.gather(0, small.clamp(min=0)[None])[0][known]
    return float(-own.double().clamp(min=1e-12).log().mean())


def show(
    sample: WholeImage, predicted: Int64[np.ndarray, "p q"], preprocessing: Preprocessing, score: float
) -> SegmentedExample:
    """All three at one size that is small enough to be kept."""
    shrink = min(1.0, SHOWN / max(predicted.shape))
    size = (max(1, round(predicted.shape[0] * shrink)), max(1, round(predicted.shape[1] * shrink)))
    image = F.interpolate(sample.image, size=size, mode="bilinear", antialias=True)
    truth, shown = (
        F.interpolate(numbers[None, None].double(), size=size, mode="nearest-exact")[0, 0].long().numpy()
        for numbers in (sample.mask, torch.from_numpy(predicted))
    )
    return SegmentedExample(
        name=sample.name, image=to_bytes(image, preprocessing)[0], truth=truth, predicted=shown, score=score
    )
