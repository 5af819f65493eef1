"""A trained segmenter as a function from pictures to masks, in Hugging Face's shapes.

h w picture, ch channels, k classes
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from PIL import Image
from torch import Tensor

from vitrail.data.base_size import to_base
from vitrail.data.class_colors import Color, choose_colors
from vitrail.data.mask_painting import paint_over, to_mask_file
from vitrail.data.picture_store import to_channels
from vitrail.deploy.image_source import ImageSource as Picture
from vitrail.deploy.image_source import open_image as open_picture
from vitrail.deploy.pipeline import open_engine, report_engine
from vitrail.errors import VitrailError
from vitrail.models.dense_inference import Inference, infer, name_pixels
from vitrail.models.purpose import purpose_of


class Segmented(NamedTuple):
    """The likeliest class of each pixel of a picture, and how likely it is."""

    picture: UInt8[np.ndarray, "h w ch"]
    numbers: Int64[np.ndarray, "h w"]
    scores: Float[np.ndarray, "h w"]


class Chances(NamedTuple):
    """A picture, what a model is given of it, and how likely each class is at every place of that."""

    opened: Image.Image
    images: Float[Tensor, "1 ch h w"]
    chances: Float[Tensor, "k h w"]


class ImageSegmentation:
    """`segment(picture)` gives [{"label": ..., "score": ..., "mask": ..., "value": ...}, ...], a part for each class in the
    picture, the largest first; a list of pictures gives a list of those. A mask is a picture in gray ("L") as large as the one
    asked about, 255 where the class is; the score is the mean probability of the class there, the value its number in masks like
    those learned from.

    Other engines than torch compute windows of the model's own size, which overlap by half: what `how=Inference(window=model.image_size)` is
    by torch."""

    def __init__(self, model: Any, *, how: Inference | None = None, engine: str = "torch") -> None:
        if purpose_of(model) != "segment":
            raise VitrailError(f"this model is no segmenter: it is of the kind {model.architecture}")
        self.model, self.how = model.eval(), how or Inference()
        if engine != "torch":
            self.how = window_of(self.model, self.how, engine)
        self.engine = open_engine(self.model, engine, None)
        self.labels: tuple[str, ...] = model.labels or tuple(f"LABEL_{i}" for i in range(model.num_classes))
        self.values: Sequence[int] = model.config.values or range(model.num_classes)
        self.colors: Sequence[Color] = model.colors or choose_colors(self.labels)

    def __call__(self, pictures: Picture | Sequence[Picture]) -> Any:
        if isinstance(pictures, Picture):
            return self.parts(self.segment(pictures))
        return [self.parts(self.segment(picture)) for picture in pictures]

    def segment(self, picture: Picture) -> Segmented:
        found = self.look(picture)
        numbers, scores = name_pixels(found.chances, (found.opened.height, found.opened.width))
        return Segmented(to_channels(found.opened, 3), numbers.cpu().numpy(), scores.cpu().numpy())

    def look(self, picture: Picture) -> Chances:
        """A file is decoded whole: its mask is to lie on all of its pixels."""
        opened = open_picture(picture, (1 << 16, 1 << 16))
        array = to_channels(opened, self.model.config.in_channels)
        images = to_base(array, self.model.preprocessing).to(next(self.model.parameters()).device)
        with torch.inference_mode():
            return Chances(opened, images, infer(self.engine, images, self.how)[0])

    @property
    def engine_report(self) -> str:
        return report_engine(self.engine)

    def parts(self, found: Segmented) -> list[dict[str, Any]]:
        counts = np.bincount(found.numbers.ravel(), minlength=len(self.labels))
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda number: -counts[number])
        return [self.part(found, number) for number in order]

    def part(self, found: Segmented, number: int) -> dict[str, Any]:
        here = found.numbers == number
        mask = Image.fromarray(np.where(here, np.uint8(255), np.uint8(0)))
        score = float(found.scores[here].mean())
        return {"label": self.labels[number], "score": score, "mask": mask, "value": self.values[number]}

    def mask_file(self, found: Segmented) -> Image.Image:
        """The classes as masks number them, in their colors."""
        return to_mask_file(found.numbers, self.colors, self.values)

    def overlay(self, found: Segmented) -> Image.Image:
        return Image.fromarray(paint_over(found.picture, found.numbers, self.colors))


def window_of(model: Any, how: Inference, engine: str) -> Inference:
    """The same, in windows of the one size that an engine's program takes. Pictures cover it, unless they are made smaller."""
    if how.window not in (None, model.image_size) or min(how.scales) < 1:
        height, width = model.image_size
        raise VitrailError(
            f"the engine {engine} computes windows of {height}x{width}, the model's own, at scales of 1 and more: got {how}"
        )
    return replace(how, window=model.image_size)
