"""Finding objects in images: `vt.pipeline("object-detection")`, and `vitrail predict` with a detector.

b batch, ch channels, q queries, k classes
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor, nn

from vitrail.data.transforms import prepare
from vitrail.deploy import pipeline
from vitrail.deploy.export.interface import Interface
from vitrail.deploy.image_source import ImageSource, open_image
from vitrail.deploy.pipeline import Inputs, Prediction, Progress, labels_of
from vitrail.deploy.predicted_files import OutputFolder
from vitrail.errors import VitrailError
from vitrail.models.detections import Detected
from vitrail.models.detr import Detector, decode_boxes, usual_threshold
from vitrail.models.model import Model
from vitrail.tasks.detect.options import PredictOptions

Result = list[dict[str, Any]]
BOXES = "_boxes.png"


@dataclass(frozen=True, kw_only=True)
class Call(pipeline.Call):
    threshold: float | None = None  # None: the model's usual one
    batch: int = 8

    def check(self) -> None:
        if (self.threshold is not None and not 0 <= self.threshold <= 1) or self.batch < 1:
            raise VitrailError(f"threshold must be from 0 to 1 and batch at least 1, got {self.threshold} and {self.batch}")


class LastOutputs(nn.Module):
    """What a detector gives behind its last block; what it gives before is for its training."""

    def __init__(self, model: Detector) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Float[Tensor, "b ch h w"]) -> tuple[Float[Tensor, "b q k"], Float[Tensor, "b q 4"]]:
        found = self.model(images)
        return found.logits[-1], found.boxes[-1]


class Pipeline(pipeline.Pipeline[Image.Image, Result]):
    """`detect(image)` gives [{"score": ..., "label": ..., "box": {"xmin", "ymin", "xmax", "ymax"}}, ...], the highest score first, in whole
    pixels of the upright image, as Hugging Face's pipeline does; a list of images gives a list of those."""

    engines = True
    model: Detector
    call = Call

    def __init__(self, model: Model, *, engine: str = "torch") -> None:
        super().__init__(model, engine=engine)
        self.labels = labels_of(self.model)

    def check_model(self, model: Model) -> None:
        if not isinstance(model, Detector):
            raise VitrailError(f"this model finds no objects: it is of the kind {model.architecture}")

    def batch(self, options: Call) -> int:
        return options.batch

    def read(self, source: ImageSource) -> Image.Image:
        return open_image(source, None)  # boxes are in its own pixels

    def prepare(self, samples: Sequence[Image.Image]) -> list[Inputs[Image.Image]]:
        return [Inputs(samples, prepare(list(samples), self.model.preprocessing))]

    def forward(self, inputs: Inputs[Image.Image], options: Call, progress: Progress) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Scores, classes and boxes of each image."""
        assert self.engine is not None
        logits, placed = self.engine(inputs.batch)
        sizes = torch.tensor([(image.height, image.width) for image in inputs.samples], device=logits.device)
        return list(decode_boxes(Detected(logits[None], placed[None]), sizes, config=self.model.config))

    def postprocess(self, outputs: tuple[Tensor, Tensor, Tensor], sample: Image.Image, options: Call) -> Result:
        threshold = usual_threshold(self.model.config) if options.threshold is None else options.threshold
        scores, classes, boxes = outputs
        rows = zip(scores.tolist(), classes.tolist(), boxes.round().int().tolist(), strict=True)
        return [
            {
                "score": score,
                "label": self.labels[number],
                "box": dict(zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)),
            }
            for score, number, box in sorted(rows, key=lambda row: -row[0])
            if score >= threshold
        ]

    def keywords(self, options: PredictOptions) -> dict[str, Any]:
        return {"threshold": options.threshold, "batch": 1}  # a batch would move scores in the seventh digit

    def open_folder(self, options: PredictOptions) -> OutputFolder:
        return OutputFolder.open(options.out)

    def write(self, found: Prediction[Image.Image, Result], folder: OutputFolder) -> dict[str, str]:
        if folder.path is None:
            return {}
        name = folder.path / (folder.free_stem(found.source) + BOXES)
        self.draw(found).save(name)
        return {"file": str(name)}

    def describe(self, found: Prediction[Image.Image, Result], files: dict[str, str], *, width: int) -> str:
        return f"{found.source!s:<{width}}  {count_labels(found.result)}"

    def draw(self, found: Prediction[Image.Image, Result]) -> Image.Image:
        """The image with its boxes, each class in a color of its own, the highest score in front."""
        from vitrail.report.boxes import Drawn, class_color, draw_boxes  # here: it imports matplotlib

        drawn = [
            Drawn(list(row["box"].values()), class_color(self.labels.index(row["label"])), f"{row['label']} {row['score']:.2f}")
            for row in reversed(found.result)
        ]
        return draw_boxes(found.sample, drawn)

    @staticmethod
    def interface(model: Model) -> Interface:
        assert isinstance(model, Detector)
        scores = "before sigmoid" if model.config.focal else "before softmax over the classes; the last one is: nothing"
        boxes = "batch, queries, 4; center x, center y, width, height, in shares of the image's sides"
        outputs = {"logits": f"batch, queries, classes; {scores}", "boxes": boxes}
        return Interface(LastOutputs(model).eval(), outputs)


def count_labels(boxes: Result) -> str:
    """5 found: 4 RBC, 1 WBC; the most frequent first."""
    counts = Counter(row["label"] for row in boxes).most_common()
    return f"{len(boxes)} found" + (": " if counts else "") + ", ".join(f"{count} {label}" for label, count in counts)
