"""The studio's page of segmenters: the classes of an image's pixels, how likely each is at every place, and what a place attends to.

h w what the model sees, k classes, p q what the page shows
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from vitrail.data.class_colors import Color, choose_colors
from vitrail.data.images import read_image
from vitrail.data.masked import find_masked
from vitrail.deploy.studio.action import Action, ImageOrder, Order
from vitrail.deploy.studio.context import Context
from vitrail.deploy.studio.facts import ImageFacts, Stored, has_weights, name_classes
from vitrail.deploy.studio.numbers import pack
from vitrail.deploy.studio.page import Page
from vitrail.deploy.studio.pixels import encode_numbers, png_address
from vitrail.deploy.studio.samples import SampleList, find_samples
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import PREVIEW, UploadedImage
from vitrail.deploy.studio.walls import describe_wall
from vitrail.deploy.studio.working import work
from vitrail.explain.evaluating import check_finite
from vitrail.explain.places import Place, read_from_place
from vitrail.explain.record import attention_layers
from vitrail.models.catalogue import count_parameters
from vitrail.models.dense_inference import name_pixels
from vitrail.models.segmenter import Segmenter
from vitrail.tasks.segment.predict import Pipeline

PAGE = Page(
    name="segment", address="/segment", title="Classes of pixels", web=Path(__file__).parent / "web", style="dense",
    missing="There is no segmenter yet. Train one with: vitrail train --task segment --data FOLDER",
)  # fmt: skip
MOST_REPORTED = 6  # classes of a place
KEPT_SHARE = 4  # probabilities take at most this part of the studio's memory, or none are kept
MOST_SEGMENTATIONS = 12  # of one session


@dataclass(frozen=True, kw_only=True)
class SegmentFacts(ImageFacts):
    """`head` is the kind of head on the encoder; `attention`, whether the encoder's can be shown."""

    does: ClassVar[str] = "gives classes to pixels"
    labels: tuple[str, ...]
    colors: tuple[Color, ...]
    encoder: str
    head: str
    layers: int

    def find_samples(self, run: Path) -> SampleList:
        return find_samples(run, self.image_size, marked=find_masked)


def describe(model: Segmenter, stored: Stored) -> SegmentFacts:
    """Of a model without weights, on torch's meta device."""
    config, names = model.config, name_classes(stored.labels, model.num_classes)
    model.colors = stored.colors  # refuses what are no colors
    shown = has_weights(model.backbone) and not getattr(model.backbone.config, "merge", 0)
    return SegmentFacts(
        architecture=model.architecture,
        labels=names,
        colors=model.colors or choose_colors(names),
        preprocessing=stored.preprocessing,
        encoder=config.network,
        head=config.head,
        layers=len(attention_layers(model.backbone)) if shown else 0,
        parameters=count_parameters(model),
        attention=shown,
    )


@dataclass(slots=True)
class Segmentation:
    """`numbers` are the classes that `vitrail predict` finds, in images of at most PREVIEW pixels a side; larger ones shrink."""

    noun: ClassVar[str] = "answer"  # how an error calls it
    model: str  # its id
    version: object  # of its weights
    size: tuple[int, int]  # of the image
    numbers: Int64[np.ndarray, "p q"]
    scores: dict[int, float]  # the mean probability of each class where it is the likeliest
    chances: Float[Tensor, "k h w"] | None  # in float16
    images: Float[Tensor, "1 _ h w"]
    milliseconds: float
    answers: dict[Place, bytes] = field(default_factory=dict)  # what places attend to, as it was sent

    @property
    def nbytes(self) -> int:
        kept = 0 if self.chances is None else self.chances.nbytes
        return kept + self.numbers.nbytes + self.images.nbytes + sum(map(len, list(self.answers.values())))


def segment_pixels(model: Segmenter, image: UploadedImage, *, name: str, version: object, budget: int) -> Segmentation:
    """One pass over what `vitrail predict` gives the model."""
    start = time.perf_counter()
    found = Pipeline(model).look(read_image(image.content, name=image.name))
    check_finite(found.probabilities)
    numbers, sure = name_pixels(found.probabilities, shown_size(image.size))
    counts = torch.bincount(numbers.flatten())
    means = torch.bincount(numbers.flatten(), sure.flatten()) / counts
    fits = KEPT_SHARE * 2 * found.probabilities.numel() <= budget
    return Segmentation(
        model=name,
        version=version,
        size=image.size,
        numbers=numbers.numpy(),
        scores={int(number): float(means[number]) for number in counts.nonzero().flatten()},
        chances=found.probabilities.half() if fits else None,
        images=found.images,
        milliseconds=1000 * (time.perf_counter() - start),
    )


def shown_size(size: tuple[int, int]) -> tuple[int, int]:
    """Of an image on the page: its own, or as large as a preview of it."""
    scale = min(1.0, PREVIEW / max(size))
    return max(1, round(scale * size[0])), max(1, round(scale * size[1]))


def describe_segmentation(name: str, found: Segmentation) -> dict[str, Any]:
    """With its mask inside, and the classes in it, the largest first."""
    counts = np.bincount(found.numbers.ravel())
    order = sorted(found.scores, key=lambda number: -counts[number])
    return {
        "id": name,
        "height": found.size[0],
        "width": found.size[1],
        "mask": png_address(encode_numbers(found.numbers)),
        "classes": [
            {"index": number, "share": counts[number] / found.numbers.size, "score": found.scores[number]} for number in order
        ],
        "kept": found.chances is not None,
        "ms": found.milliseconds,
    }


def check_place(row: float, column: float) -> Place:
    if not (0 <= row < 1 and 0 <= column < 1):
        raise StudioError("A place is a row and a column from 0 to 1, in shares of the image's sides.")
    return row, column


def describe_place(found: Segmentation, place: Place) -> dict[str, Any]:
    """The likeliest classes of the pixel at a place, and the one that the mask has there."""
    row, column = (int(share * side) for share, side in zip(place, found.numbers.shape, strict=True))
    if found.chances is None:
        raise StudioError("Probabilities of so many classes and pixels do not fit the studio's memory (--memory).")
    chances = chances_at(found.chances, (row, column), (found.numbers.shape[0], found.numbers.shape[1]))
    best = chances.topk(min(MOST_REPORTED, len(chances)))
    return {
        "row": row,
        "column": column,
        "index": int(found.numbers[row, column]),
        "classes": [{"index": i, "p": p} for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)],
    }


def chances_at(chances: Float[Tensor, "k h w"], pixel: tuple[int, int], size: tuple[int, int]) -> Float[Tensor, "k"]:
    """Those that stretching all of them to `size` would give this pixel."""
    (row, column), (height, width) = pixel, size
    place = torch.tensor([(2 * column + 1) / width - 1, (2 * row + 1) / height - 1]).view(1, 1, 1, 2)
    return F.grid_sample(chances[None].float(), place, padding_mode="border", align_corners=False)[0, :, 0, 0]


def describe_attention(model: Segmenter, found: Segmentation, place: Place) -> dict[str, Any]:
    """What a place attends to in every layer and head of the encoder: one more pass."""
    reading = read_from_place(model, found.images, place)
    return {"walls": [describe_wall("encoder", "What this place attends to", reading.layers, covers=reading.covers)]}


class PlaceQuery(Order):
    answer: str
    row: float
    column: float


def segment(context: Context, order: ImageOrder) -> dict[str, Any]:
    """The mask, and an id to ask for what is behind a place by."""
    entry, _ = context.find_model(order.model, SegmentFacts, "This model gives no classes to pixels.")
    image = context.get(order.image, UploadedImage)
    with context.computing(entry) as model:
        budget = context.studio.store.budget
        found = work(segment_pixels, model, image, name=entry.id, version=entry.version, budget=budget)
    return describe_segmentation(context.put(found, most=MOST_SEGMENTATIONS), found)


def show_place(context: Context, query: PlaceQuery) -> dict[str, Any]:
    """From what is kept: the model is not asked again."""
    return describe_place(context.get(query.answer, Segmentation), check_place(query.row, query.column))


def attention(context: Context, query: PlaceQuery) -> bytes:
    """Asks the model once more; what it said is kept with the answer."""
    found, place = context.get(query.answer, Segmentation), check_place(query.row, query.column)
    entry = context.studio.models.find(found.model)
    with context.computing(entry) as model:
        if place not in found.answers:
            if entry.version != found.version:
                raise StudioError("The model has learned more since this answer: choose the image again.", 410)
            found.answers[place] = pack(work(describe_attention, model, found, place))
    context.studio.store.shrink()
    return found.answers[place]


ACTIONS: Mapping[str, Action] = {
    "find": Action(function=segment, order=ImageOrder),
    "place": Action(function=show_place, order=PlaceQuery, method="GET", weight="light"),
    "attention": Action(function=attention, order=PlaceQuery, method="GET"),
}
