"""The studio's page of detectors: the boxes of an image, and where the model looked for one of them.

a heads, gh gw grid
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.data.box_data import find_boxes
from vitrail.data.images import read_image
from vitrail.data.transforms import prepare
from vitrail.deploy.studio.action import Action, ImageOrder, Order
from vitrail.deploy.studio.context import Context
from vitrail.deploy.studio.facts import ImageFacts, Stored, has_weights, name_classes
from vitrail.deploy.studio.page import Page
from vitrail.deploy.studio.samples import SampleList, find_samples
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import UploadedImage
from vitrail.deploy.studio.walls import describe_wall
from vitrail.deploy.studio.working import work
from vitrail.explain.boxes import see_boxes
from vitrail.explain.evaluating import NOT_FINITE
from vitrail.models.catalogue import count_parameters
from vitrail.models.detr import Detector, decode_boxes, pick_boxes, usual_threshold
from vitrail.report.boxes import class_color

PAGE = Page(
    name="detect", address="/detect", title="Boxes", web=Path(__file__).parent / "web", style="dense",
    missing="There is no detector yet. Train one with: vitrail train --task detect --data FOLDER",
)  # fmt: skip
LEAST = 0.05  # the score from which on a box is kept: the page's slider goes no lower
MOST_DETECTIONS = 24  # of one session


@dataclass(frozen=True, kw_only=True)
class DetectFacts(ImageFacts):
    """`threshold` is the score from which on `vitrail predict` gives a box."""

    does: ClassVar[str] = "finds objects"
    labels: tuple[str, ...]
    queries: int
    layers: int  # of the encoder
    decoder_layers: int
    heads: int
    threshold: float

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"colors": [class_color(number) for number in range(len(self.labels))]}

    def find_samples(self, run: Path) -> SampleList:
        return find_samples(run, self.image_size, marked=find_boxes)


def describe(model: Detector, stored: Stored) -> DetectFacts:
    """Of a model without weights, on torch's meta device."""
    config = model.config
    return DetectFacts(
        architecture=model.architecture,
        labels=name_classes(stored.labels, config.num_classes),
        preprocessing=stored.preprocessing,
        queries=config.queries,
        layers=config.depth,
        decoder_layers=config.decoder_depth,
        heads=config.heads,
        threshold=usual_threshold(config),
        parameters=count_parameters(model),
        attention=has_weights(model),
    )


@dataclass(frozen=True, slots=True)
class Found:
    """A box x0 y0 x1 y1 in pixels of the upright image."""

    query: int
    label: int
    score: float
    box: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a query reads in the blocks of the decoder, and the middle of its box in those of the encoder."""

    decoder: Float[Tensor, "_ a gh gw"]
    encoder: list[Float[Tensor, "a gh gw"]]

    @property
    def nbytes(self) -> int:
        return self.decoder.nbytes + sum(maps.nbytes for maps in self.encoder)


@dataclass(slots=True)
class Detection:
    """All boxes of an image, surest first, and by query what was read for them."""

    noun: ClassVar[str] = "answer"  # how an error calls it
    size: tuple[int, int]  # height, width of the image
    boxes: list[Found]
    readings: dict[int, Reading]  # empty where the model's attention has no weights
    milliseconds: float

    @property
    def nbytes(self) -> int:
        return 100 * len(self.boxes) + sum(reading.nbytes for reading in self.readings.values())


def detect_boxes(model: Detector, image: UploadedImage, facts: DetectFacts) -> Detection:
    """One pass over what `vitrail predict` gives the model: the whole image."""
    opened = read_image(image.content, name=image.name)
    inputs = prepare([opened], facts.preprocessing)
    start = time.perf_counter()
    with torch.inference_mode():
        sight = see_boxes(model, inputs) if facts.attention else None
        detected = model(inputs) if sight is None else sight.detected
        if not bool(detected.logits[-1].isfinite().all() and detected.boxes[-1].isfinite().all()):
            raise StudioError(f"{NOT_FINITE.capitalize()}.")
        queries = pick_boxes(detected, config=model.config).queries[0].tolist()
        [(scores, classes, boxes)] = decode_boxes(detected, torch.tensor([image.size]), config=model.config)
        found = [
            Found(query, label, score, tuple(box))
            for query, label, score, box in zip(queries, classes.tolist(), scores.tolist(), boxes.tolist(), strict=True)
            if score >= LEAST
        ]
        readings = {}
        if sight is not None:
            asked = dict.fromkeys(one.query for one in found)
            readings = {query: Reading(sight.read_by_query(query), sight.read_from_middle(query)) for query in asked}
    return Detection(image.size, found, readings, 1000 * (time.perf_counter() - start))


def describe_detection(name: str, found: Detection) -> dict[str, Any]:
    return {
        "id": name,
        "height": found.size[0],
        "width": found.size[1],
        "least": LEAST,
        "boxes": [{"query": one.query, "label": one.label, "score": one.score, "box": one.box} for one in found.boxes],
        "ms": found.milliseconds,
    }


def describe_reading(found: Detection, number: int) -> dict[str, Any]:
    """Of a box by its number: every block and head of the decoder and of the encoder."""
    if not 0 <= number < len(found.boxes):
        raise StudioError(f"There is no box {number}: this image has {len(found.boxes)}.", 404)
    reading = found.readings.get(found.boxes[number].query)
    if reading is None:
        raise StudioError("The attention of this model has no weights to show.")
    walls = [describe_wall("decoder", "What its query reads", list(reading.decoder))]
    if reading.encoder:
        walls.append(describe_wall("encoder", "What the middle of the box reads", reading.encoder))
    return {"walls": walls}


class BoxQuery(Order):
    answer: str
    box: int


def find(context: Context, order: ImageOrder) -> dict[str, Any]:
    """All boxes down to a low score, and an id to ask for what was read by."""
    entry, facts = context.find_model(order.model, DetectFacts, "This model finds no objects.")
    image = context.get(order.image, UploadedImage)
    with context.computing(entry) as model:
        found = work(detect_boxes, model, image, facts)
    return describe_detection(context.put(found, most=MOST_DETECTIONS), found)


def reading(context: Context, query: BoxQuery) -> dict[str, Any]:
    """From what is kept: the model is not asked again."""
    return describe_reading(context.get(query.answer, Detection), query.box)


ACTIONS: Mapping[str, Action] = {
    "find": Action(function=find, order=ImageOrder),
    "reading": Action(function=reading, order=BoxQuery, method="GET", weight="light"),
}
