"""Captions of images: `vt.pipeline("image-to-text")`, `vitrail caption` and `vitrail predict`.

b images, ch channels, m tokens of the longest caption
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor

from vitrail.data.transforms import fit_image, prepare
from vitrail.deploy import pipeline
from vitrail.deploy.image_source import ImageSource, open_image
from vitrail.deploy.pipeline import Inputs, Prediction, Progress
from vitrail.deploy.predicted_files import OutputFolder
from vitrail.deploy.text_pipeline import BeamCall
from vitrail.errors import VitrailError
from vitrail.explain.files import check_out
from vitrail.files import write_whole
from vitrail.models.captioner import CaptionModel
from vitrail.models.decoding.writing import write_caption
from vitrail.models.model import Model
from vitrail.tasks.caption.options import PredictOptions

Result = list[dict[str, str]]


@dataclass(frozen=True)
class Written:
    """Images as the model saw them together, and the token ids of their captions."""

    model: CaptionModel
    images: Float[Tensor, "b ch h w"]
    ids: Int[Tensor, "b m"]

    @cached_property
    def looks(self) -> list[Any]:
        """Where the model looked for each word of each caption."""
        from vitrail.explain.captions import look_at_words

        return list(look_at_words(self.model, self.images, self.ids))


class Caption(NamedTuple):
    """The caption of one image: the number of a row."""

    group: Written
    row: int


class Pipeline(pipeline.Pipeline[Image.Image, Result]):
    """`describe(image)` gives [{"generated_text": ...}], as Hugging Face's pipeline does; a list of images gives a list of those."""

    call = BeamCall

    model: CaptionModel

    def __init__(self, model: Model, *, engine: str = "torch") -> None:
        super().__init__(model, engine=engine)
        self.tokenizer = self.model.tokenizer

    def check_model(self, model: Model) -> None:
        if not isinstance(model, CaptionModel):
            raise VitrailError(f"this model writes no captions: it is of the kind {model.architecture}")
        if model.tokenizer is None:
            raise VitrailError("this model has no tokenizer: its words cannot be read")

    def batch(self, options: BeamCall) -> int:
        return options.batch

    def read(self, source: ImageSource) -> Image.Image:
        return open_image(source, self.model.preprocessing.size)

    def prepare(self, samples: Sequence[Image.Image]) -> list[Inputs[Image.Image]]:
        return [Inputs(samples, prepare(list(samples), self.model.preprocessing))]

    def forward(self, inputs: Inputs[Image.Image], options: BeamCall, progress: Progress) -> list[Caption]:
        images = inputs.batch.to(next(self.model.parameters()).device)
        with torch.no_grad():
            group = Written(self.model, images, write_caption(self.model, images, beams=options.beams))
        return [Caption(group, row) for row in range(len(inputs.samples))]

    def postprocess(self, outputs: Caption, sample: Image.Image, options: BeamCall) -> Result:
        return [{"generated_text": self.tokenizer.decode(outputs.group.ids[outputs.row].tolist())}]

    def keywords(self, options: PredictOptions) -> dict[str, Any]:
        return {"beams": options.num_beams}

    def open_folder(self, options: PredictOptions) -> OutputFolder:
        return OutputFolder(None if options.out is None else check_out(options.out))

    def write(self, found: Prediction[Image.Image, Result], folder: OutputFolder) -> dict[str, str]:
        """A PNG per image, numbered, so that two of one name stay two."""
        from vitrail.rendering import to_png  # here: it imports matplotlib

        if folder.path is not None:
            folder.path.mkdir(parents=True, exist_ok=True)
            write_whole(folder.path / f"{folder.number():03}_{found.source.stem}.png", to_png(self.draw_words(found)))
        return {}

    def draw_words(self, found: Prediction[Image.Image, Result]) -> Any:
        """A figure of the image, its caption, and where the model looked for each word."""
        from vitrail.explain.figures.captions import CaptionRow, draw_captions

        look = found.outputs.group.looks[found.outputs.row]
        image = fit_image(found.sample, self.model.preprocessing)
        return draw_captions([CaptionRow(image=image, caption=look.caption, words=look.words, maps=look.maps)])

    def describe(self, found: Prediction[Image.Image, Result], files: dict[str, str], *, width: int) -> str:
        return f"{found.source!s:<{width}}  {found.result[0]['generated_text']}"
