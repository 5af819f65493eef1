"""The boxes of one picture, and what is kept of where the model looked for them.

a heads, gh gw grid
"""

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.data.images import read_picture
from vitrail.data.transforms import prepare
from vitrail.deploy.studio.detect_facts import DetectFacts
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import Picture
from vitrail.deploy.studio.walls import describe_wall
from vitrail.explain.boxes import see_boxes
from vitrail.explain.evaluating import NOT_FINITE
from vitrail.models.detr import decode_boxes, pick_boxes

LEAST = 0.05  # the score from which on a box is kept: the page's slider goes no lower


@dataclass(frozen=True, slots=True)
class Found:
    """A box x0 y0 x1 y1 in pixels of the upright picture."""

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
    """All boxes of a picture, surest first, and by query what was read for them."""

    told: ClassVar[str] = "answer"  # how an error calls it
    size: tuple[int, int]  # height, width of the picture
    boxes: list[Found]
    readings: dict[int, Reading]  # empty where the model's attention has no weights
    milliseconds: float

    @property
    def nbytes(self) -> int:
        return 100 * len(self.boxes) + sum(reading.nbytes for reading in self.readings.values())


def detect_boxes(model: Any, picture: Picture, facts: DetectFacts) -> Detection:
    """One pass over what `vitrail predict` gives the model: the whole picture."""
    opened = read_picture(picture.content, name=picture.name)
    image = prepare([opened], facts.preprocessing)
    start = time.perf_counter()
    with torch.inference_mode():
        sight = see_boxes(model, image) if facts.attention else None
        detected = model(image) if sight is None else sight.detected
        if not bool(detected.logits[-1].isfinite().all() and detected.boxes[-1].isfinite().all()):
            raise StudioError(f"{NOT_FINITE.capitalize()}.")
        queries = pick_boxes(detected, config=model.config).queries[0].tolist()
        [(scores, classes, boxes)] = decode_boxes(detected, torch.tensor([picture.size]), config=model.config)
        found = [
            Found(query, label, score, tuple(box))
            for query, label, score, box in zip(queries, classes.tolist(), scores.tolist(), boxes.tolist(), strict=True)
            if score >= LEAST
        ]
        readings = {}
        if sight is not None:
            asked = dict.fromkeys(one.query for one in found)
            readings = {query: Reading(sight.read_by_query(query), sight.read_from_middle(query)) for query in asked}
    return Detection(picture.size, found, readings, 1000 * (time.perf_counter() - start))


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
        raise StudioError(f"There is no box {number}: this picture has {len(found.boxes)}.", 404)
    reading = found.readings.get(found.boxes[number].query)
    if reading is None:
        raise StudioError("The attention of this model has no weights to show.")
    walls = [describe_wall("decoder", "What its query reads", list(reading.decoder))]
    if reading.encoder:
        walls.append(describe_wall("encoder", "What the middle of the box reads", reading.encoder))
    return {"walls": walls}
