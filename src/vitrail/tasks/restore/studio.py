"""The studio's page of restoration: an image restored tile by tile, made worse first if asked for, watched, and kept as files.

ch channels, h w image
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from jaxtyping import UInt8
from PIL import Image
from pydantic import Field, StrictBool, StrictInt

from vitrail.data.degradation import Degradation, degrade, describe_degradation, enlarge, parse_degradation, to_bytes
from vitrail.data.images import read_image
from vitrail.data.transforms import to_unit
from vitrail.deploy.studio.action import Action, ImageOrder, Order
from vitrail.deploy.studio.background import Job, OnProgress
from vitrail.deploy.studio.context import Context
from vitrail.deploy.studio.facts import Facts, Stored
from vitrail.deploy.studio.page import Page
from vitrail.deploy.studio.pixels import encode_pixels
from vitrail.deploy.studio.samples import SampleList, find_samples
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import UploadedImage
from vitrail.deploy.studio.working import check_weights
from vitrail.errors import VitrailError
from vitrail.learn.metrics.restoration import measure
from vitrail.models.catalogue import count_parameters
from vitrail.models.restorer import Restorer
from vitrail.models.tiling import TILE, restore_tiled
from vitrail.report.compare import PART, Square, differing_square
from vitrail.report.page import OWN
from vitrail.tasks.restore.layers import Layers
from vitrail.tasks.restore.predict import Pipeline

PAGE = Page(
    name="restore", address="/restore", title="Restoration", web=Path(__file__).parent / "web",
    missing="There is no model that restores images yet. Train one with: vitrail train --task restore --data FOLDER --degrade sr2",
    files={f"{PART}.{kind}": OWN / f"{PART}.{kind}" for kind in ("css", "js")},  # of the reports: one slider for both
)  # fmt: skip
MOST_MADE = 8_000_000  # pixels that come out
MOST_RESTORATIONS = 6  # of one session
SQUARE = 64  # pixels a side of what the page enlarges

Which = Literal["given", "restored", "truth"]


@dataclass(frozen=True, kw_only=True)
class RestoreFacts(Facts):
    """`degradation` is what it learned to undo, None where it does not say."""

    does: ClassVar[str] = "restores images"
    scale: int
    channels: int
    degradation: Degradation | None

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {
            "degradation": None if self.degradation is None else str(self.degradation),
            "degraded": None if self.degradation is None else describe_degradation(self.degradation),
        }

    def find_samples(self, run: Path) -> SampleList:
        return find_samples(run, None)


def describe(model: Restorer, stored: Stored) -> RestoreFacts:
    """Of a model without weights, on torch's meta device."""
    channels, named = model.config.in_channels, model.config.degradation
    if channels not in (1, 3) or model.config.out_channels != channels:
        raise VitrailError(
            f"the studio restores images of 1 or 3 channels: this model reads {channels} and gives {model.config.out_channels}"
        )
    found = None if named is None else parse_degradation(named)
    return RestoreFacts(
        architecture=model.architecture,
        scale=model.scale,
        channels=channels,
        degradation=found if found is not None and found.scale == model.scale else None,
        parameters=count_parameters(model),
    )


@dataclass(frozen=True, kw_only=True)
class Made:
    """What came out: PNG files of one size, the truth only where the image was made worse first."""

    files: dict[Which, bytes]
    size: tuple[int, int]  # height, width
    given_size: tuple[int, int]  # of what the model was given
    square: Square
    scores: dict[str, float]  # PSNR and SSIM, given and restored, where there is a truth
    notes: tuple[str, ...]
    milliseconds: float = field(default=0.0)

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.files.values()))


def make_restoration(
    model: Restorer, image: UploadedImage, facts: RestoreFacts, *, worse: bool, seed: int, on_tile: OnProgress
) -> Made:
    """`worse`: what the model learned to undo is done to the image first, which then is the truth to compare with."""
    check_weights(model)
    opened = read_image(image.content, name=image.name)
    if worse:
        opened = opened.convert("L" if facts.channels == 1 else "RGB")  # as in training
    pixels, notes = cut_pixels(np.atleast_3d(np.asarray(opened)), facts, worse=worse)
    images = to_unit(pixels[None])
    start = time.perf_counter()
    if worse:
        assert facts.degradation is not None
        images = degrade(images, facts.degradation, seed=seed, epoch=0, indices=np.array([0])).contiguous()
        restored = to_bytes(restore_tiled(model, images, tile=TILE, on_tile=on_tile).float())
    else:  # as `vitrail restore` does
        layers = Layers(Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels), None)
        restored = np.atleast_3d(np.asarray(Pipeline(model).restore(layers, tile=TILE, on_tile=on_tile)))
    milliseconds = 1000 * (time.perf_counter() - start)
    given = enlarge(images, facts.scale)
    shown: dict[Which, np.ndarray] = {"given": given, "restored": restored}
    scores: dict[str, float] = {}
    if worse and facts.degradation is not None:
        shown["truth"] = pixels
        for which in ("given", "restored"):
            psnr, ssim = measure(shown[which], pixels, facts.degradation)
            scores |= {f"psnr_{which}": psnr, f"ssim_{which}": ssim}
    return Made(
        files={which: encode_pixels(array) for which, array in shown.items()},
        size=(restored.shape[0], restored.shape[1]),
        given_size=(images.shape[2], images.shape[3]),
        square=differing_square(given, restored, side=SQUARE),
        scores=scores,
        notes=notes,
        milliseconds=milliseconds,
    )


def cut_pixels(
    pixels: UInt8[np.ndarray, "h w ch"], facts: RestoreFacts, *, worse: bool
) -> tuple[UInt8[np.ndarray, "_ _ ch"], tuple[str, ...]]:
    """The middle of an image from which more would come out than MOST_MADE pixels; of one that is to be shrunk, whole multiples of
    the scale; and what a person should know of it."""
    height, width = pixels.shape[:2]
    enlarged = 1 if worse else facts.scale
    share = min(1.0, math.sqrt(MOST_MADE / (height * width)) / enlarged)
    rows, columns = (max(1, math.floor(share * side)) for side in (height, width))
    if share == 1 and worse:
        rows, columns = (side - side % facts.scale for side in (rows, columns))
        if not rows or not columns:
            raise StudioError(
                f"An image of {width} × {height} pixels cannot be made {facts.scale} times smaller: take a larger one."
            )
    elif worse:
        rows, columns = (max(facts.scale, side - side % facts.scale) for side in (rows, columns))
    top, left = (height - rows) // 2, (width - columns) // 2
    cut = pixels[top : top + rows, left : left + columns].copy()
    if share == 1:
        return cut, ()
    words = f"The middle {columns:,} × {rows:,} of {width:,} × {height:,} pixels: at most {MOST_MADE // 1_000_000} million may come out."
    return cut, (words,)


class Restoration(Job):
    """One image on its way."""

    noun: ClassVar[str] = "restoration"
    made: Made | None

    def describe_made(self) -> dict[str, Any]:
        assert self.made is not None
        made = self.made
        return {
            "height": made.size[0],
            "width": made.size[1],
            "given": made.given_size,
            "square": {"top": made.square.top, "left": made.square.left, "side": made.square.side},
            "scores": made.scores,
            "notes": made.notes,
            "images": list(made.files),
            "ms": made.milliseconds,
        }


class RestorationOrder(ImageOrder):
    degrade: StrictBool = False
    seed: Annotated[StrictInt, Field(ge=0, le=2**31)] = 0


class FileQuery(Order):
    answer: str
    which: str


def restore(context: Context, order: RestorationOrder) -> dict[str, Any]:
    entry, facts = context.find_model(order.model, RestoreFacts, "This model does not restore images.")
    if order.degrade and facts.degradation is None:
        raise StudioError("This model does not say what it learned to undo: take the image as it is.")
    image = context.get(order.image, UploadedImage)

    def make(model: Restorer, on_progress: OnProgress) -> Made:
        return make_restoration(model, image, facts, worse=order.degrade, seed=order.seed, on_tile=on_progress)

    return context.begin(Restoration(model=entry.id, name=image.name), entry, make, most=MOST_RESTORATIONS)


def show_image(context: Context, query: FileQuery) -> bytes:
    made = context.get(query.answer, Restoration).made
    found = None if made is None else next((content for kind, content in made.files.items() if kind == query.which), None)
    if found is None:
        raise StudioError("There is no such image of this restoration.", 404)
    return found


ACTIONS: Mapping[str, Action] = {
    "run": Action(function=restore, order=RestorationOrder, output="job", weight="light", job=Restoration),
    "image": Action(function=show_image, order=FileQuery, method="GET", output="png", weight="light"),
}
