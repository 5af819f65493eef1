"""A trained model as a function from sentences to their translations.

b sentences, m tokens of the longest
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from vitrail.data.text.padding import pad
from vitrail.errors import VitrailError
from vitrail.models.decoding.writing import write_translation
from vitrail.models.purpose import purpose_of
from vitrail.special_tokens import END, UNKNOWN


class Translated(NamedTuple):
    """A translation, and what a person should know of it."""

    text: str
    notes: tuple[str, ...] = ()


class Translation:
    """`translate(sentence)` gives [{"translation_text": ...}], as Hugging Face's pipeline does; a list of sentences gives a list
    of such rows. Words never seen in training are guessed from their letters, and a sentence that is too long is cut: `stream` says
    where that happened."""

    def __init__(self, model: Any) -> None:
        if purpose_of(model) != "translate":
            raise VitrailError(f"this model does not translate: it is of the kind {model.architecture}")
        if model.tokenizer is None:
            raise VitrailError("this model has no tokenizer: it cannot read text")
        self.model, self.tokenizer = model.eval(), model.tokenizer
        self.longest = int(model.config.longest)

    def __call__(self, sentences: str | Sequence[str], *, beams: int = 5, batch: int = 32) -> list[dict[str, str]]:
        given = [sentences] if isinstance(sentences, str) else sentences
        return [{"translation_text": answer.text} for answer in self.stream(given, beams=beams, batch=batch)]

    def stream(self, sentences: Iterable[str], *, beams: int = 5, batch: int = 32) -> Iterator[Translated]:
        """Answers one by one, in the order of the sentences, of which `batch` are read at a time. Nothing gives nothing."""
        if beams < 1 or batch < 1:
            raise VitrailError(f"beams and batch must be at least 1, got {beams} and {batch}")
        group = list[str]()
        try:
            for sentence in sentences:
                group.append(sentence)
                if len(group) == batch:
                    yield from self.translate(group, beams=beams)
                    group = []
        except VitrailError:  # of who reads them: what was read before is answered
            yield from self.translate(group, beams=beams)
            raise
        yield from self.translate(group, beams=beams)

    def translate(self, sentences: Sequence[str], *, beams: int) -> list[Translated]:
        """All of them in one batch."""
        rows = [self.read(sentence) for sentence in sentences]
        full = [number for number, (ids, _) in enumerate(rows) if len(ids) > 1]  # more than END
        answers = [Translated("", notes) for _, notes in rows]
        if full:
            for number, text in zip(full, self.write([rows[number][0] for number in full], beams=beams), strict=True):
                answers[number] = Translated(text, rows[number][1])
        return answers

    def read(self, sentence: str) -> tuple[list[int], tuple[str, ...]]:
        """The model's source, its words and END, and what was done to it."""
        ids = self.tokenizer.encode(sentence)
        notes = []
        if unknown := ids.count(UNKNOWN):
            notes.append(f"{unknown} of {len(ids)} tokens were never seen in training")
        if len(ids) >= self.longest:
            notes.append(f"cut: {len(ids)} tokens, the model reads {self.longest - 1}")
        return [*ids[: self.longest - 1], END], tuple(notes)

    def write(self, sources: list[list[int]], *, beams: int) -> list[str]:
        """A batch of sources as the task writes them: beam search, or a model's own way."""
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            found = write_translation(self.model, pad(sources).to(device), beams=beams)
        return [self.tokenizer.decode(row) for row in found.tolist()]
