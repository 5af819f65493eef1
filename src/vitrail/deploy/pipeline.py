"""A trained model as a function from pictures, or text, to answers, in Hugging Face's shapes."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps

from vitrail.data.images import read_picture, to_gray_or_color
from vitrail.data.transforms import prepare, prepare_aspect
from vitrail.deploy.engines import ENGINES, Automatic, Engine, make_engine
from vitrail.deploy.fill_mask import FillMask
from vitrail.deploy.text_generation import TextGeneration
from vitrail.deploy.translation import Translation
from vitrail.errors import VitrailError, check_choice
from vitrail.models.catalogue import ARCHITECTURES
from vitrail.models.classifier import to_probabilities
from vitrail.models.folder import load
from vitrail.ragged import Ragged

TASKS = (
    "image-classification", "image-to-text", "translation", "text-generation", "fill-mask", "image-to-image", "image-segmentation",
    "object-detection",
)  # fmt: skip
ENGINED = ("image-classification", "image-segmentation", "object-detection")  # what other engines than torch compute too
Picture = str | Path | Image.Image | np.ndarray
Answer = list[dict[str, Any]]


class ImageClassification:
    """`classify(picture)` gives [{"label": ..., "score": ...}, ...], best first; a list of pictures gives a list of those.

    Scores are probabilities. Of a model with one label a picture they sum to 1 (softmax); of one with any number of labels
    each class has its own, from 0 to 1 (sigmoid), and those above 0.5 are the labels it gives.
    """

    def __init__(self, model: Any, *, engine: str = "torch") -> None:
        known = ARCHITECTURES.get(model.architecture)  # a detector has classes too, of boxes
        if not hasattr(model, "num_classes") or (known is not None and known.takes != "pictures"):
            raise VitrailError(f"this model is no classifier: it is of the kind {model.architecture}")
        if not model.num_classes:
            raise VitrailError("this model has no classifier: it was made with num_classes=0")
        self.model = model.eval()
        self.labels = model.labels or tuple(f"LABEL_{i}" for i in range(model.num_classes))
        self.engine = open_engine(self.model, engine)

    def __call__(self, pictures: Picture | Sequence[Picture], *, top_k: int = 5, batch: int = 32) -> Any:
        if top_k < 1:
            raise VitrailError(f"top_k must be at least 1, got {top_k}")
        one = isinstance(pictures, Picture)
        answers = list(self.stream([pictures] if isinstance(pictures, Picture) else pictures, top_k=top_k, batch=batch))
        return answers[0] if one else answers

    def stream(self, pictures: Iterable[Picture], *, top_k: int = 5, batch: int = 32) -> Iterator[Answer]:
        """Answers one by one, pictures read a batch at a time."""
        source = iter(pictures)
        while group := [open_picture(picture, self.model.preprocessing.size) for picture in islice(source, batch)]:
            for row in self.scores(group):
                best = row.argsort(descending=True, stable=True)[:top_k]
                yield [{"label": self.labels[i], "score": float(row[i])} for i in best.tolist()]

    def scores(self, pictures: list[Image.Image]) -> torch.Tensor:
        """Probabilities, b k."""
        images: Any = self.prepare(pictures)
        return to_probabilities(self.engine(images).float(), multi_label=self.model.multi_label).cpu()

    @property
    def engine_report(self) -> str:
        return report_engine(self.engine)

    def prepare(self, pictures: list[Image.Image]) -> torch.Tensor | Ragged:
        """The model's input; where it takes pictures in their own aspect, of as many sizes."""
        preprocessing = self.model.preprocessing
        if preprocessing.fit == "aspect":
            return prepare_aspect(pictures, preprocessing, multiple=self.model.size_multiple)
        return prepare(pictures, preprocessing)


def open_engine(model: Any, name: str) -> Engine:
    """By its name, or "auto". Pictures of many sizes are packed into one sequence, which torch alone does."""
    check_choice("engine", name, ("auto", *ENGINES))
    if name != "torch" and model.preprocessing.fit == "aspect":
        warnings.warn(f"this model takes pictures of many sizes, which the engine {name} does not: torch answers", stacklevel=4)
        name = "torch"
    return Automatic(model) if name == "auto" else make_engine(model, name)


def report_engine(engine: Engine) -> str:
    """Which engine answers; of "auto" a line for each class of batches met so far, with what was measured."""
    return "\n".join(engine.report) if isinstance(engine, Automatic) else engine.name


def open_picture(picture: Picture, target: tuple[int, int] | None) -> Image.Image:
    """Upright, in gray or color; a file is decoded no finer than `target` needs, if it is known, as it is in training."""
    if isinstance(picture, Image.Image):
        return to_gray_or_color(ImageOps.exif_transpose(picture))  # upright, as one read from a file
    if isinstance(picture, np.ndarray):
        if picture.dtype != np.uint8 or not (picture.ndim == 2 or (picture.ndim == 3 and picture.shape[2] == 3)):
            raise VitrailError(f"a picture as an array must be uint8, h w or h w 3, got {picture.dtype} {picture.shape}")
        return to_gray_or_color(Image.fromarray(picture))
    return read_picture(Path(picture).expanduser(), target=target)


def pipeline(task: str, model: Any, *, engine: str = "torch") -> Any:
    """`model`: one from `vt.load` or `vt.create_model`, or whatever `vt.load` takes.

    `engine`: what computes the answers of a classifier, a segmenter or a detector: "torch", "compile", "onnxruntime", "openvino", or "auto": the fastest of those that
    are installed, measured once a machine and model.
    """
    check_choice("pipeline", task, TASKS)
    check_choice("engine", engine, ("auto", *ENGINES))
    if engine != "torch" and task not in ENGINED:
        raise VitrailError(f'engine="{engine}" is for {", ".join(ENGINED)}; {task} is computed by torch')
    if task == "image-classification":
        from vitrail.deploy.cascade_folder import as_cascade  # here: a cascade is made of these pipelines

        cascade = as_cascade(model, engine=engine)  # a Cascade, or a folder with cascade.json in it; None for all else
        if cascade is not None:
            return cascade
    loaded = load(model) if isinstance(model, str | Path) else model
    if task == "image-to-text":
        from vitrail.deploy.captions import ImageToText  # here: it opens pictures as this module does

        return ImageToText(loaded)
    if task == "image-to-image":
        from vitrail.deploy.image_to_image import ImageToImage

        return ImageToImage(loaded)
    if task == "image-segmentation":
        from vitrail.deploy.segmentation import ImageSegmentation

        return ImageSegmentation(loaded, engine=engine)
    if task == "object-detection":
        from vitrail.deploy.detection import ObjectDetection

        return ObjectDetection(loaded, engine=engine)
    made: dict[str, Callable[[Any], Any]] = {
        "translation": Translation,
        "text-generation": TextGeneration,
        "fill-mask": FillMask,
    }
    return made[task](loaded) if task in made else ImageClassification(loaded, engine=engine)
