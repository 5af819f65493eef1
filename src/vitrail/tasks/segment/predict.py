"""Segmenting images: `vt.pipeline("image-segmentation")`, and `vitrail predict` with a segmenter.

h w image, ch channels, k classes
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from PIL import Image
from torch import Tensor

from vitrail.data.base_size import to_base
from vitrail.data.class_colors import Color, choose_colors
from vitrail.data.image_store import to_channels
from vitrail.data.mask_painting import paint_over, to_mask_file
from vitrail.deploy import pipeline
from vitrail.deploy.export.interface import Interface
from vitrail.deploy.image_source import ImageSource, open_image
from vitrail.deploy.pipeline import Inputs, Prediction, Progress, labels_of
from vitrail.deploy.predicted_files import OutputFolder
from vitrail.errors import VitrailError
from vitrail.models.dense_inference import Inference, infer, name_pixels
from vitrail.models.model import Model
from vitrail.models.segmenter import Segmenter
from vitrail.tasks.segment.options import PredictOptions

Result = list[dict[str, Any]]
MASK, OVERLAY = "_mask.png", "_overlay.png"


@dataclass(frozen=True, kw_only=True)
class Call(pipeline.Call):
    top_k: int | None = None  # so many classes, the largest first; None: all

    def check(self) -> None:
        if self.top_k is not None and self.top_k < 1:
            raise VitrailError(f"top_k must be at least 1, got {self.top_k}")


class Segmented(NamedTuple):
    """The likeliest class of each pixel of an image, and how likely it is."""

    image: UInt8[np.ndarray, "h w ch"]
    numbers: Int64[np.ndarray, "h w"]
    scores: Float[np.ndarray, "h w"]


class Probabilities(NamedTuple):
    """An image, what a model is given of it, and the probability of each class at every place of that."""

    opened: Image.Image
    images: Float[Tensor, "1 ch h w"]
    probabilities: Float[Tensor, "k h w"]


class Pipeline(pipeline.Pipeline[Image.Image, Result]):
    """`segment(image)` gives [{"label": ..., "score": ..., "mask": ..., "value": ...}, ...], a part for each class in the
    image, the largest first; a list of images gives a list of those. A mask is an image in gray ("L") as large as the one
    asked about, 255 where the class is; the score is the mean probability of the class there, the value its number in masks like
    those learned from.

    Other engines than torch compute windows of the model's own size, which overlap by half: what `how=Inference(window=model.image_size)` is
    by torch."""

    engines = True
    model: Segmenter
    call = Call

    def __init__(self, model: Model, *, how: Inference | None = None, engine: str = "torch") -> None:
        super().__init__(model, engine=engine)
        self.how = how or Inference()
        if engine != "torch":
            self.how = window_of(self.model, self.how, engine)
        self.labels = labels_of(self.model)
        self.values: Sequence[int] = model.config.values or range(self.model.num_classes)
        self.colors: Sequence[Color] = self.model.colors or choose_colors(self.labels)

    def check_model(self, model: Model) -> None:
        if not isinstance(model, Segmenter):
            raise VitrailError(f"this model is no segmenter: it is of the kind {model.architecture}")

    def read(self, source: ImageSource) -> Image.Image:
        return open_image(source, (1 << 16, 1 << 16))  # a file is decoded whole: its mask is to lie on all of its pixels

    def prepare(self, samples: Sequence[Image.Image]) -> list[Inputs[Image.Image]]:
        """Each at its own size."""
        device = next(self.model.parameters()).device
        arrays = [to_channels(sample, self.model.config.in_channels) for sample in samples]
        batches = [to_base(array, self.model.preprocessing).to(device) for array in arrays]
        return [Inputs([sample], batch) for sample, batch in zip(samples, batches, strict=True)]

    def forward(self, inputs: Inputs[Image.Image], options: Call, progress: Progress) -> list[Segmented]:
        (opened,) = inputs.samples
        numbers, scores = name_pixels(self.infer(inputs.batch), (opened.height, opened.width))
        return [Segmented(to_channels(opened, 3), numbers.cpu().numpy(), scores.cpu().numpy())]

    def infer(self, images: Float[Tensor, "1 ch h w"]) -> Float[Tensor, "k h w"]:
        """The probabilities of each class, in windows and scales as `how` says."""
        assert self.engine is not None
        with torch.inference_mode():
            return infer(self.engine, images, self.how)[0]

    def look(self, source: ImageSource) -> Probabilities:
        opened = self.read(source)
        (inputs,) = self.prepare([opened])
        return Probabilities(opened, inputs.batch, self.infer(inputs.batch))

    def segment(self, source: ImageSource) -> Segmented:
        (found,) = self.compute([self.read(source)], self.choose(), pipeline.ignore)
        return found

    def postprocess(self, outputs: Segmented, sample: Image.Image, options: Call) -> Result:
        counts = np.bincount(outputs.numbers.ravel(), minlength=len(self.labels))
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda number: -counts[number])
        return [self.part(outputs, number) for number in order[: options.top_k]]

    def part(self, found: Segmented, number: int) -> dict[str, Any]:
        here = found.numbers == number
        mask = Image.fromarray(np.where(here, np.uint8(255), np.uint8(0)))
        score = float(found.scores[here].mean())
        return {"label": self.labels[number], "score": score, "mask": mask, "value": self.values[number]}

    def keywords(self, options: PredictOptions) -> dict[str, Any]:
        return {"top_k": options.top_k}

    def open_folder(self, options: PredictOptions) -> OutputFolder:
        return OutputFolder.open(options.out)

    def write(self, found: Prediction[Image.Image, Result], folder: OutputFolder) -> dict[str, str]:
        """The classes as masks number them, in their colors, and laid over the image."""
        if folder.path is None:
            return {}
        name = folder.free_stem(found.source)
        files = {"mask": folder.path / (name + MASK), "overlay": folder.path / (name + OVERLAY)}
        to_mask_file(found.outputs.numbers, self.colors, self.values).save(files["mask"])
        self.draw(found).save(files["overlay"])
        return {key: str(path) for key, path in files.items()}

    def to_json(self, found: Prediction[Image.Image, Result], files: dict[str, str]) -> Any:
        """Label, score, number in masks and share of the pixels of each class; the files instead of its mask."""
        return [
            {name: part[name] for name in ("label", "score", "value")} | {"share": share_of(part["mask"])} | files
            for part in found.result
        ]

    def describe(self, found: Prediction[Image.Image, Result], files: dict[str, str], *, width: int) -> str:
        words = "   ".join(f"{part['label']} {100 * share_of(part['mask']):5.1f} %" for part in found.result)
        return f"{found.source!s:<{width}}  {words}"

    def draw(self, found: Prediction[Image.Image, Result]) -> Image.Image:
        return Image.fromarray(paint_over(found.outputs.image, found.outputs.numbers, self.colors))

    @staticmethod
    def interface(model: Model) -> Interface:
        return Interface(model, {"logits": "batch, classes, height, width; before softmax over the classes"})


def share_of(mask: Image.Image) -> float:
    """Of its pixels, those that are 255."""
    return mask.histogram()[255] / (mask.width * mask.height)


def window_of(model: Segmenter, how: Inference, engine: str) -> Inference:
    """The same, in windows of the one size that an engine's program takes. Images cover it, unless they are made smaller."""
    if how.window not in (None, model.image_size) or min(how.scales) < 1:
        height, width = model.image_size
        raise VitrailError(
            f"the engine {engine} computes windows of {height}x{width}, the model's own, at scales of 1 and more: got {how}"
        )
    return replace(how, window=model.image_size)
