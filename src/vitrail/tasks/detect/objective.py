"""The objective of detection: model + set loss, scored by average precision.

b batch, n boxes, m objects
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from vitrail.data.dataset import Split, origin
from vitrail.data.formats.marks import MarkedSplit
from vitrail.learn.losses.set_prediction import set_loss
from vitrail.learn.metrics.average_precision import MOST, AveragePrecision, Found, Truth, average_precision
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.models.detections import Detected, Targets
from vitrail.models.detr import Detector, decode_boxes
from vitrail.nn.functional.boxes import to_corners
from vitrail.tasks.detect.data import NOTHING, BoxBatch


@dataclass(frozen=True, kw_only=True, eq=False)
class Detections:
    """What a detector finds in a split. A row is a box: number of its image, class, score, x0 y0 x1 y1 in pixels; a row of `truth` has
    whether the object is a crowd, and whether difficult, in the place of the score."""

    found: Float64[np.ndarray, "n 7"]
    truth: Float64[np.ndarray, "m 8"]
    images: Int[np.ndarray, "p"]
    classes: int
    loss: float
    by_size: bool = True

    @cached_property
    def precision(self) -> AveragePrecision:
        return average_precision(
            to_found(self.found),
            to_truth(self.truth),
            images=self.images.tolist(),
            classes=self.classes,
            by_size=self.by_size,
        )

    @cached_property
    def metrics(self) -> dict[str, float]:
        return {"loss": self.loss, **self.precision.numbers}

    @property
    def error(self) -> float:
        """As if AP50 were the share of objects that are found."""
        share = self.metrics["ap50"]
        return math.sqrt(share * (1 - share) / max(1, len(self.truth)))


class Detect(ForwardObjective):
    """Satisfies the training loop's Objective protocol. `by_size`: score small, medium and large objects by themselves too."""

    name = "detect"
    model: Detector
    score = "ap50"

    def __init__(self, model: Detector, *, by_size: bool = False, **running: Unpack[Running]) -> None:
        super().__init__(model, **running)
        self.by_size = by_size

    def loss(self, batch: BoxBatch) -> Tensor:
        targets = batch.targets
        detected = self.train_forward(batch.images, targets)
        loss, rows = self.distance(detected, targets), self.model.class_rows
        if self.world.size > 1 and detected.noised is None and rows is not None:
            loss = loss + 0.0 * rows.sum()  # images without objects: every process must have a gradient of every parameter
        return loss

    def distance(self, detected: Detected, targets: Sequence[Targets]) -> Tensor:
        config = self.model.config
        return set_loss(detected, targets, focal=config.focal, matches_per_object=config.guesses)

    def evaluate(self, batches: Iterable[BoxBatch]) -> Detections:
        was_training = self.model.training
        self.model.eval()
        found, truth, losses, seen = list[Tensor](), list[Tensor](), list[Tensor](), list[Tensor]()
        with torch.inference_mode():
            for batch in batches:
                detected = self.forward(batch.images.to(self.device))
                targets = [type(target)(*(part.to(self.device) for part in target)) for target in batch.targets]
                loss = self.distance(detected, targets)
                losses.append(torch.tensor([[loss.item() * batch.weight, batch.weight]], dtype=torch.float64))
                seen.append(batch.indices)
                boxes = decode_boxes(detected, batch.sizes.to(self.device), config=self.model.config, top=MOST)
                found += [box_rows(index, *one) for index, one in zip(batch.indices, boxes, strict=True)]
                truth += [truth_rows(batch, row) for row in range(len(batch.indices))]
        self.model.train(was_training)
        numbers = torch.cat(seen) if seen else torch.zeros(0, dtype=torch.int64)
        images, _ = self.world.gather_rows(numbers[:, None], numbers)
        counted = self.world.gather(torch.cat(losses).sum(0).tolist() if losses else [0.0, 0.0])
        total, weight = (sum(column) for column in zip(*counted, strict=True))
        return Detections(
            found=self.gather(found, 7),
            truth=self.gather(truth, 8),
            images=images[:, 0].numpy(),
            classes=self.model.num_classes,
            loss=total / max(1.0, weight),
            by_size=self.by_size,
        )

    def gather(self, rows: list[Tensor], columns: int) -> Float64[np.ndarray, "n c"]:
        """Rows of all processes, by image."""
        table = torch.cat([torch.zeros(0, columns, dtype=torch.float64), *rows])
        return self.world.gather_rows(table, table[:, 0].long())[0].numpy()


def box_rows(index: Tensor, scores: Tensor, classes: Tensor, boxes: Tensor) -> Float64[Tensor, "n 7"]:
    """The boxes of one image, best first, and no more than are counted."""
    order = scores.argsort(descending=True, stable=True)[:MOST]
    numbers = index.expand(len(order)).to(scores.device)
    rows = torch.cat(
        [numbers[:, None].double(), classes[order, None].double(), scores[order, None].double(), boxes[order].double()], 1
    )
    return rows.cpu()


def truth_rows(batch: BoxBatch, row: int) -> Float64[Tensor, "m 8"]:
    """The objects of one image of a batch, crowds too, in pixels of the image itself."""
    kept = batch.classes[row] != NOTHING
    height, width = batch.sizes[row].tolist()
    corners = to_corners(batch.boxes[row][kept].double()) * torch.tensor([width, height, width, height], dtype=torch.float64)
    numbers = batch.indices[row].double().expand(int(kept.sum()))
    columns = (numbers, batch.classes[row][kept], batch.crowd[row][kept], batch.difficult[row][kept])
    return torch.cat([torch.stack([column.double() for column in columns], 1), corners], 1)


def to_found(rows: Float64[np.ndarray, "n 7"]) -> Found:
    return Found(image=rows[:, 0].astype(np.int64), classes=rows[:, 1].astype(np.int64), scores=rows[:, 2], boxes=rows[:, 3:])


def to_truth(rows: Float64[np.ndarray, "m 8"]) -> Truth:
    return Truth(
        image=rows[:, 0].astype(np.int64), classes=rows[:, 1].astype(np.int64), crowd=rows[:, 2] > 0, difficult=rows[:, 3] > 0,
        boxes=rows[:, 4:],
    )  # fmt: skip


def coco_results(detections: Detections, images: Split, numbers: Sequence[int | None]) -> list[dict[str, Any]]:
    """[{"image_id", "category_id", "bbox": [x, y, width, height], "score"}], with the ids that the data's file has for images and classes,
    where it has any; the image's file beside them. `numbers`: of each class of the model in the data, if it is in it."""
    results = []
    for index, number, score, x0, y0, x1, y1 in detections.found.tolist():
        whole, place = origin(images, int(index))
        kind = numbers[int(number)]
        ids, kinds = (whole.ids, whole.kinds) if isinstance(whole, MarkedSplit) else (range(len(whole)), range(len(numbers)))
        results.append(
            {
                "image_id": ids[place],
                "category_id": None if kind is None else kinds[kind],
                "bbox": [round(value, 2) for value in (x0, y0, x1 - x0, y1 - y0)],
                "score": round(score, 6),
                "file_name": Path(images.name(int(index))).name,
            }
        )
    return results
