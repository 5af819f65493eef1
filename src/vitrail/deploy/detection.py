"""A trained detector as a function from pictures to boxes, in Hugging Face's shapes."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from PIL import Image

from vitrail.data.transforms import prepare
from vitrail.deploy.pipeline import Picture, open_engine, open_picture, report_engine
from vitrail.errors import VitrailError
from vitrail.models.detections import Detected
from vitrail.models.detr import decode_boxes, usual_threshold
from vitrail.models.purpose import purpose_of

Answer = list[dict[str, Any]]


class ObjectDetection:
    """`detect(picture)` gives [{"score": ..., "label": ..., "box": {"xmin", "ymin", "xmax", "ymax"}}, ...], surest first, in whole pixels of
    the upright picture, as Hugging Face's pipeline does; a list of pictures gives a list of those."""

    def __init__(self, model: Any, *, engine: str = "torch") -> None:
        if purpose_of(model) != "detect":
            raise VitrailError(f"this model finds no objects: it is of the kind {model.architecture}")
        self.model = model.eval()
        self.engine = open_engine(self.model, engine)
        self.labels = model.labels or tuple(f"LABEL_{number}" for number in range(model.num_classes))

    def __call__(self, pictures: Picture | Sequence[Picture], *, threshold: float | None = None, batch: int = 8) -> Any:
        threshold = usual_threshold(self.model.config) if threshold is None else threshold
        if not 0 <= threshold <= 1 or batch < 1:
            raise VitrailError(f"threshold must be from 0 to 1 and batch at least 1, got {threshold} and {batch}")
        one = isinstance(pictures, Picture)
        answers = list(self.stream([pictures] if isinstance(pictures, Picture) else pictures, threshold=threshold, batch=batch))
        return answers[0] if one else answers

    def stream(self, pictures: Sequence[Picture], *, threshold: float, batch: int = 8) -> Iterator[Answer]:
        """Answers one by one, pictures read a batch at a time."""
        source = iter(pictures)
        while group := [open_picture(picture, None) for picture in islice(source, batch)]:  # boxes are in its own pixels
            yield from self.detect(group, threshold=threshold)

    @property
    def engine_report(self) -> str:
        return report_engine(self.engine)

    def detect(self, pictures: list[Image.Image], *, threshold: float) -> Iterator[Answer]:
        logits, placed = self.engine(prepare(pictures, self.model.preprocessing))
        sizes = torch.tensor([(picture.height, picture.width) for picture in pictures], device=logits.device)
        found = decode_boxes(Detected(logits[None], placed[None]), sizes, config=self.model.config)
        for scores, classes, boxes in found:
            rows = zip(scores.tolist(), classes.tolist(), boxes.round().int().tolist(), strict=True)
            yield [
                {
                    "score": score,
                    "label": self.labels[number],
                    "box": dict(zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)),
                }
                for score, number, box in sorted(rows, key=lambda row: -row[0])
                if score >= threshold
            ]
