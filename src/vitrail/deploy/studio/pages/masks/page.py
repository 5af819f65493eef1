"""The page of masks: patches of an image are masked, at random or by hand, and drawn by the model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, StrictFloat, StrictInt

from vitrail.deploy.studio.action import Action, ImageOrder
from vitrail.deploy.studio.context import Context
from vitrail.deploy.studio.facts import ImageFacts, Stored
from vitrail.deploy.studio.page import Page
from vitrail.deploy.studio.pages.masks.drawings import describe_drawing, draw_hidden, keep_all_but, keep_at_random
from vitrail.deploy.studio.uploads import UploadedImage
from vitrail.deploy.studio.working import work
from vitrail.errors import VitrailError
from vitrail.explain.masked_patches import Statistics
from vitrail.models.catalogue import count_parameters
from vitrail.models.masked_autoencoder import MaskedAutoencoder

PAGE = Page(name="masks", address="/mask", title="Hidden patches", web=Path(__file__).parent / "web")


@dataclass(frozen=True, kw_only=True)
class MaskFacts(ImageFacts):
    """`hide` is the share of patches that was hidden in training, `normalize` whether each is predicted without its mean and deviation."""

    does: ClassVar[str] = "draws hidden patches"
    grid: tuple[int, int]
    patch: tuple[int, int]
    hide: float
    normalize: bool
    layers: int
    decoder_layers: int


class DrawingOrder(ImageOrder):
    share: Annotated[StrictFloat, Field(ge=0.05, le=0.95)] = 0.75
    seed: Annotated[StrictInt, Field(ge=0, le=2**31)] = 0
    hidden: Annotated[list[StrictInt], Field(max_length=100_000)] | None = None  # by hand: then neither share nor seed counts
    statistics: Statistics = "true"


def describe(model: MaskedAutoencoder, stored: Stored) -> MaskFacts:
    """Of a masked autoencoder without weights, on torch's meta device."""
    preprocessing = stored.preprocessing
    if preprocessing.channels not in (1, 3):
        raise VitrailError(f"the studio draws images of 1 or 3 channels: this model reads {preprocessing.channels}")
    tokenizer = model.backbone.tokenizer
    rows, columns = tokenizer.grid(preprocessing.size)
    height, width = tokenizer.patch
    return MaskFacts(
        architecture=model.architecture,
        preprocessing=preprocessing,
        grid=(rows, columns),
        patch=(height, width),
        hide=model.config.hide,
        normalize=model.config.normalize,
        layers=len(model.backbone.encoder.blocks),
        decoder_layers=model.config.decoder_depth,
        parameters=count_parameters(model),
    )


def draw(context: Context, order: DrawingOrder) -> dict[str, Any]:
    """A share of the patches hidden at random, or those that are named. Nothing is kept of a drawing: the next one is another."""
    entry, facts = context.find_model(order.model, MaskFacts, "This model has not learned to draw hidden patches.")
    cells = math.prod(facts.grid)
    kept = keep_at_random(cells, order.share, seed=order.seed) if order.hidden is None else keep_all_but(cells, order.hidden)
    pixels = context.get(order.image, UploadedImage).fit(facts.preprocessing).copy()
    with context.computing(entry) as model:
        return describe_drawing(work(draw_hidden, model, pixels, kept, facts.preprocessing, order.statistics))


ACTIONS: Mapping[str, Action] = {"draw": Action(function=draw, order=DrawingOrder)}
