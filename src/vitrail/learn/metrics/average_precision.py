"""Average precision of boxes as COCO has it, computed by pycocotools  [Lin+ 2014].

Of each class: boxes in the order of their scores; one that overlaps an object of the class that no better box has found by at
least IoU t is right. Precision p(r) at recall r, made to fall, is read at 101 recalls from 0 to 1: AP_t = mean_r p(r), and
AP = mean over t = 0.50, 0.55, ... 0.95 and over the classes that have objects. Crowds and difficult objects are neither to be
found nor held against who finds them; objects count as small below 32² pixels, as large from 96² on.

n boxes, m objects, k classes
"""

import contextlib
import io
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from vitrail.extras import need

MOST = 100  # boxes of an image that count
AREAS = {"all": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}
RECALLS = np.linspace(0, 1, 101)


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """All objects of a split; `image` says of which each is."""

    image: Int[np.ndarray, "m"]
    classes: Int[np.ndarray, "m"]
    boxes: Float[np.ndarray, "m 4"]  # x0 y0 x1 y1, pixels
    crowd: Bool[np.ndarray, "m"]
    difficult: Bool[np.ndarray, "m"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """All boxes that a detector gives for a split."""

    image: Int[np.ndarray, "n"]
    classes: Int[np.ndarray, "n"]
    boxes: Float[np.ndarray, "n 4"]  # x0 y0 x1 y1, pixels
    scores: Float[np.ndarray, "n"]


@dataclass(frozen=True, kw_only=True, eq=False)
class AveragePrecision:
    """Precisions by threshold of overlap, recall, class and area, -1 where there is no object; and the scores at which they hold."""

    precision: Float[np.ndarray, "10 101 k areas"]
    scores: Float[np.ndarray, "10 101 k areas"]
    recall: Float[np.ndarray, "10 k areas"]  # the highest that is reached

    @cached_property
    def numbers(self) -> dict[str, float]:
        """AP, AP50 and AP75, and by size where there are objects of it. Without any object all are 0."""
        found = {
            "ap50": mean(self.precision[0, :, :, 0]),
            "ap": mean(self.precision[..., 0]),
            "ap75": mean(self.precision[5, :, :, 0]),
        }
        for number in range(1, self.precision.shape[-1]):
            found[f"ap_{list(AREAS)[number]}"] = mean(self.precision[..., number])
        found["recall"] = mean(self.recall[..., 0])
        return {name: 0.0 if name == "ap50" and math.isnan(value) else value for name, value in found.items()
                if name == "ap50" or not math.isnan(value)}  # fmt: skip

    def of_class(self, number: int) -> dict[str, float]:
        """The same of one class; not a number where it has no object."""
        part = self.precision[:, :, number, 0]
        return {"ap50": mean(part[0]), "ap": mean(part), "ap75": mean(part[5]), "recall50": mean(self.recall[0, number, :1])}

    def curve(self, number: int) -> Float[np.ndarray, "101"] | None:
        """Precision at IoU 0.5 by RECALLS; None of a class without objects."""
        found = self.precision[0, :, number, 0]
        return None if (found < 0).all() else found

    def best_threshold(self, number: int) -> tuple[float, float, float] | None:
        """Of one class at IoU 0.5: the score from which on precision and recall have the best harmonic mean, and those two."""
        curve = self.curve(number)
        if curve is None or not curve.max() > 0:
            return None
        balance = 2 * curve * RECALLS / np.maximum(curve + RECALLS, 1e-9)
        at = int(balance.argmax())
        return float(self.scores[0, at, number, 0]), float(curve[at]), float(RECALLS[at])


def average_precision(
    found: Found, truth: Truth, *, images: Iterable[int], classes: int, by_size: bool = True
) -> AveragePrecision:
    """Of a split's `images`, those with no object and no box too. `by_size` off: over all sizes alone, in a quarter of the time."""
    need("pycocotools", "detect")
    from pycocotools.coco import COCO  # type: ignore[import-untyped]
    from pycocotools.cocoeval import COCOeval  # type: ignore[import-untyped]

    with silenced():
        known, answers = COCO(), COCO()
        listed, categories = [{"id": number} for number in images], [{"id": number} for number in range(classes)]
        known.dataset = {"images": listed, "categories": categories, "annotations": list(list_truth(truth))}
        answers.dataset = {"images": listed, "categories": categories, "annotations": list(list_found(found))}
        known.createIndex()
        answers.createIndex()
        judge = COCOeval(known, answers, "bbox")
        chosen = list(AREAS) if by_size else ["all"]
        judge.params.areaRng, judge.params.areaRngLbl = [list(AREAS[name]) for name in chosen], chosen
        judge.params.maxDets = [MOST]
        ignore_difficult(judge)
        judge.evaluate()
        judge.accumulate()
    result = judge.eval
    return AveragePrecision(
        precision=result["precision"][..., 0], scores=result["scores"][..., 0], recall=result["recall"][..., 0]
    )


def mean(values: Float[np.ndarray, "*some"]) -> float:
    """Of those that there are: -1 stands for none."""
    there = values[values > -1]
    return float(there.mean()) if there.size else math.nan


def ignore_difficult(judge: Any) -> None:
    """pycocotools knows crowds alone as what is not to be found: what is difficult is marked behind its own preparation, which forgets it."""
    prepare = judge._prepare

    def prepare_ours() -> None:
        prepare()
        for objects in judge._gts.values():
            for one in objects:
                one["ignore"] = int(one["iscrowd"] or one["difficult"])

    judge._prepare = prepare_ours


def list_truth(truth: Truth) -> Iterator[dict[str, Any]]:
    rows = zip(
        truth.image.tolist(),
        truth.classes.tolist(),
        truth.boxes.tolist(),
        truth.crowd.tolist(),
        truth.difficult.tolist(),
        strict=True,
    )
    for number, (image, kind, box, crowd, difficult) in enumerate(rows, start=1):  # 0 would say "matched with nothing"
        yield {**describe_box(number, image, kind, box), "iscrowd": int(crowd), "difficult": difficult}


def list_found(found: Found) -> Iterator[dict[str, Any]]:
    rows = zip(found.image.tolist(), found.classes.tolist(), found.boxes.tolist(), found.scores.tolist(), strict=True)
    for number, (image, kind, box, score) in enumerate(rows, start=1):
        yield {**describe_box(number, image, kind, box), "score": score}


def describe_box(number: int, image: int, kind: int, box: list[float]) -> dict[str, Any]:
    """As COCO has it: x y width height."""
    x0, y0, x1, y1 = box
    width, height = max(0.0, x1 - x0), max(0.0, y1 - y0)
    return {"id": number, "image_id": image, "category_id": kind, "bbox": [x0, y0, width, height], "area": width * height}


def silenced() -> contextlib.AbstractContextManager[Any]:
    """pycocotools says what it is doing."""
    return contextlib.redirect_stdout(io.StringIO())
