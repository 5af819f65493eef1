"""Translating sentences: `vt.pipeline("translation")`, `vitrail translate` and `vitrail predict`.

b sentences, m tokens of the longest
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

from vitrail.data.text.padding import pad
from vitrail.deploy.pipeline import Inputs, Prediction, Progress
from vitrail.deploy.text_pipeline import BeamCall, TextPipeline
from vitrail.errors import VitrailError
from vitrail.models.decoding.writing import write_translation
from vitrail.models.model import Model
from vitrail.special_tokens import END, UNKNOWN
from vitrail.tasks.translate.options import PredictOptions

Result = dict[str, str]


class Sentence(NamedTuple):
    """The model's source, its tokens and END, and what was done to it."""

    ids: list[int]
    notes: tuple[str, ...]


class Pipeline(TextPipeline[Sentence, Result]):
    """`translate(sentence)` gives [{"translation_text": ...}], as Hugging Face's pipeline does; a list of sentences gives a list
    of such rows. Words never seen in training are guessed from their letters, and a sentence that is too long is cut: `notes` say
    where that happened."""

    devices = True
    call = BeamCall

    def check_purpose(self, model: Model) -> None:
        if model.pipeline_tag != "translation":
            raise VitrailError(f"this model does not translate: it is of the kind {model.architecture}")

    def batch(self, options: BeamCall) -> int:
        return options.batch

    def read(self, source: str) -> Sentence:
        ids = self.tokenizer.encode(source)
        notes = []
        if unknown := ids.count(UNKNOWN):
            notes.append(f"{unknown} of {len(ids)} tokens were never seen in training")
        if len(ids) >= self.longest:
            notes.append(f"cut: {len(ids)} tokens, the model reads {self.longest - 1}")
        return Sentence([*ids[: self.longest - 1], END], tuple(notes))

    def prepare(self, samples: Sequence[Sentence]) -> list[Inputs[Sentence]]:
        """All in one batch, but for those that are empty."""
        full = [sample.ids for sample in samples if len(sample.ids) > 1]  # more than END
        return [Inputs(samples, pad(full) if full else None)]

    def forward(self, inputs: Inputs[Sentence], options: BeamCall, progress: Progress) -> Iterable[str]:
        """Texts as the task writes them: beam search, or a model's own way; of nothing, nothing."""
        texts = iter(())
        if inputs.batch is not None:
            device = next(self.model.parameters()).device
            with torch.inference_mode():
                found = write_translation(self.model, inputs.batch.to(device), beams=options.beams)
            texts = iter([self.tokenizer.decode(row) for row in found.tolist()])
        return [next(texts) if len(sample.ids) > 1 else "" for sample in inputs.samples]

    def postprocess(self, outputs: str, sample: Sentence, options: BeamCall) -> Result:
        return {"translation_text": outputs}

    @staticmethod
    def join(results: list[Any], *, one: bool) -> list[Any]:
        """A list of one too, as Hugging Face has it."""
        return results

    def keywords(self, options: PredictOptions) -> dict[str, Any]:
        return {"beams": options.num_beams, "batch": options.batch_size}

    def to_json(self, found: Prediction[Sentence, Result], files: dict[str, str]) -> list[Result]:
        return [found.result]

    @staticmethod
    def join_json(results: list[Any], *, verb: str) -> Any:
        """`vitrail translate` gives one list of rows, as Hugging Face's pipeline does for several sentences; `predict` a list for each."""
        if verb == "predict":
            return results[0] if len(results) == 1 else results
        return [row for rows in results for row in rows]

    def describe(self, found: Prediction[Sentence, Result], files: dict[str, str], *, width: int) -> str:
        return found.result["translation_text"]

    def notes(self, found: Prediction[Sentence, Result]) -> tuple[str, ...]:
        return found.sample.notes
