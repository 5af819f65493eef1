"""A trained captioner as a function from pictures to sentences, in Hugging Face's shapes."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from PIL import Image

from vitrail.data.transforms import prepare
from vitrail.deploy.pipeline import Picture, open_picture
from vitrail.errors import VitrailError
from vitrail.models.decoding.writing import write_caption
from vitrail.models.purpose import purpose_of


class ImageToText:
    """`describe(picture)` gives [{"generated_text": ...}], as Hugging Face's pipeline does; a list of pictures gives a list of those."""

    def __init__(self, model: Any) -> None:
        if purpose_of(model) != "caption":
            raise VitrailError(f"this model writes no captions: it is of the kind {model.architecture}")
        if model.tokenizer is None:
            raise VitrailError("this model has no tokenizer: its words cannot be read")
        self.model, self.tokenizer = model.eval(), model.tokenizer

    def __call__(self, pictures: Picture | Sequence[Picture], *, beams: int = 5, batch: int = 32) -> Any:
        if beams < 1 or batch < 1:
            raise VitrailError(f"beams and batch must be at least 1, got {beams} and {batch}")
        given = [pictures] if isinstance(pictures, Picture) else list(pictures)
        answers = [[{"generated_text": text}] for text in self.stream(given, beams=beams, batch=batch)]
        return answers[0] if isinstance(pictures, Picture) else answers

    def stream(self, pictures: Sequence[Picture], *, beams: int, batch: int) -> Iterator[str]:
        """Captions one by one, pictures read a batch at a time."""
        for start in range(0, len(pictures), batch):
            group = [open_picture(picture, self.model.preprocessing.size) for picture in pictures[start : start + batch]]
            yield from (self.tokenizer.decode(row) for row in self.write(group, beams=beams)[1].tolist())

    def write(self, pictures: list[Image.Image], *, beams: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The pictures as the model sees them, and what it says of them, in numbers."""
        images = prepare(pictures, self.model.preprocessing).to(next(self.model.parameters()).device)
        with torch.no_grad():
            return images, write_caption(self.model, images, beams=beams)
