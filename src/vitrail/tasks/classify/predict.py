"""Classifying images: `vt.pipeline("image-classification")`, and `vitrail predict` with a classifier or a cascade of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image

from vitrail.data.transforms import prepare, prepare_aspect
from vitrail.deploy import pipeline
from vitrail.deploy.export.interface import Interface
from vitrail.deploy.image_source import ImageSource, open_image
from vitrail.deploy.pipeline import Inputs, Prediction, Progress, labels_of
from vitrail.errors import VitrailError
from vitrail.models.catalogue import rebuild_merging
from vitrail.models.classifier import Classifier, to_probabilities
from vitrail.models.folder import load
from vitrail.models.model import Model
from vitrail.ragged import Ragged
from vitrail.tasks.classify.options import PredictOptions

Result = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Call(pipeline.Call):
    top_k: int = 5
    batch: int = 32
    flip_test: bool = False  # whether the logits of an image and its mirror image are averaged

    def check(self) -> None:
        if self.top_k < 1:
            raise VitrailError(f"top_k must be at least 1, got {self.top_k}")
        if self.batch < 1:
            raise VitrailError(f"batch must be at least 1, got {self.batch}")


class Pipeline(pipeline.Pipeline[Image.Image, Result]):
    """`classify(image)` gives [{"label": ..., "score": ...}, ...], best first; a list of images gives a list of those.

    Scores are probabilities. Of a model with one label per image they sum to 1 (softmax); of one with any number of labels
    each class has its own, from 0 to 1 (sigmoid), and those above 0.5 are the labels it gives.
    """

    engines = True
    model: Classifier
    call = Call

    def __init__(self, model: Model, *, engine: str = "torch") -> None:
        super().__init__(model, engine=engine)
        self.labels = labels_of(self.model)

    def check_model(self, model: Model) -> None:
        if not isinstance(model, Classifier):
            raise VitrailError(f"this model is no classifier: it is of the kind {model.architecture}")
        if not model.num_classes:
            raise VitrailError("this model has no classifier: it was made with num_classes=0")

    @classmethod
    def open(cls, source: Any, *, name: str | None = None, engine: str = "torch") -> pipeline.Pipeline[Any, Any]:
        """A `Cascade`, or a folder with cascade.json in it, answers as a classifier does."""
        from vitrail.tasks.classify.cascade_folder import as_cascade  # here: a cascade is made of these pipelines

        return as_cascade(source, engine=engine) or super().open(source, engine=engine)

    @classmethod
    def from_options(cls, run: str, options: PredictOptions) -> pipeline.Pipeline[Any, Any]:
        from vitrail.tasks.classify.cascade_folder import is_cascade

        if options.flip_test and is_cascade(run):
            raise VitrailError("--flip-test: the models of a cascade see each image as it is")
        if options.merge is None:
            return cls.open(run, engine=options.engine)
        if is_cascade(run):
            raise VitrailError(f"--merge {options.merge}: the models of a cascade merge tokens as they were made")
        return cls(rebuild_merging(load(run), options.merge), engine=options.engine)

    def batch(self, options: Call) -> int:
        return options.batch

    def read(self, source: ImageSource) -> Image.Image:
        return open_image(source, self.model.preprocessing.size)

    def prepare(self, samples: Sequence[Image.Image]) -> list[Inputs[Image.Image]]:
        return [Inputs(samples, self.to_input(list(samples)))]

    def to_input(self, images: list[Image.Image]) -> torch.Tensor | Ragged:
        """The model's input; where it takes images in their own aspect, of as many sizes."""
        preprocessing = self.model.preprocessing
        if preprocessing.fit == "aspect":
            return prepare_aspect(images, preprocessing, multiple=self.model.size_multiple)
        return prepare(images, preprocessing)

    def forward(self, inputs: Inputs[Image.Image], options: Call, progress: Progress) -> torch.Tensor:
        """Probabilities, b k."""
        assert self.engine is not None
        logits = self.engine(inputs.batch).float()
        if options.flip_test:
            logits = (logits + self.engine(inputs.batch.flip(-1)).float()) / 2
        return to_probabilities(logits, multi_label=self.model.multi_label).cpu()

    def probabilities(self, images: list[Image.Image]) -> torch.Tensor:
        """The same of images, b k."""
        return self.forward(Inputs(images, self.to_input(images)), self.choose(), pipeline.ignore)

    def postprocess(self, outputs: torch.Tensor, sample: Image.Image, options: Call) -> Result:
        return self.rank(outputs, options.top_k)

    def rank(self, row: torch.Tensor, top_k: int) -> Result:
        """The likeliest classes of an image by its probabilities."""
        best = row.argsort(descending=True, stable=True)[:top_k]
        return [{"label": self.labels[i], "score": float(row[i])} for i in best.tolist()]

    def keywords(self, options: PredictOptions) -> dict[str, Any]:
        return {"top_k": options.top_k, "flip_test": options.flip_test}

    def describe(self, found: Prediction[Image.Image, Result], files: dict[str, str], *, width: int) -> str:
        words = "   ".join(f"{row['label']} {100 * row['score']:5.1f} %" for row in found.result)
        return f"{found.source!s:<{width}}  {words}"

    @staticmethod
    def interface(model: Model) -> Interface:
        assert isinstance(model, Classifier)
        if not model.num_classes:
            return Interface(model, {"features": "batch, width"})
        return Interface(model, {"logits": f"batch, classes; before {'sigmoid' if model.multi_label else 'softmax'}"})
