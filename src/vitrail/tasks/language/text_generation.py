"""A trained language model as a function from the beginning of a text to ways in which it may go on.

c samples, n new tokens
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from vitrail.deploy import pipeline
from vitrail.deploy.pipeline import Inputs, Prediction, Progress
from vitrail.deploy.text_pipeline import TextPipeline
from vitrail.errors import VitrailError
from vitrail.models.decoding import sample
from vitrail.models.decoding.extension import spelled_words
from vitrail.models.decoding.stepping import Stepping
from vitrail.models.model import Model
from vitrail.special_tokens import BEGIN, END
from vitrail.tasks.language.options import PredictOptions

AT_ONCE = 64  # samples that are drawn side by side
Result = list[dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class Call(pipeline.Call):
    """At most `longest` new tokens; by default, and at most, as many as the model can read."""

    samples: int = 1
    longest: int | None = None
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def check(self) -> None:
        if self.samples < 1 or (self.longest is not None and self.longest < 1):
            raise VitrailError(f"samples and longest must be at least 1, got {self.samples} and {self.longest}")
        if not 0 <= self.temperature < float("inf"):
            raise VitrailError(f"temperature must be a number from 0 up, got {self.temperature}")
        if (self.top_k is not None and self.top_k < 1) or (self.top_p is not None and not 0 < self.top_p <= 1):
            raise VitrailError(f"top_k must be at least 1 and top_p in (0, 1], got {self.top_k} and {self.top_p}")


class TextGeneration(TextPipeline[list[int], Result]):
    """`write("A man")` gives [{"generated_text": ...}], one for each of `samples`, the beginning included, as Hugging Face's
    pipeline does; a list of texts gives a list of such lists. The beginning is given as the model reads it: with one space between
    words, in lower case if the model knows no other. A line's end is the text's."""

    call = Call

    def check_purpose(self, model: Model) -> None:
        if model.pipeline_tag != "text-generation":
            raise VitrailError(
                f"this model does not go on with a text: it is for {model.pipeline_tag}, not for text-generation"
            )

    def read(self, source: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(source)
        if self.longest - len(ids) < 1:
            raise VitrailError(f"a text of {len(ids)} tokens leaves no room to go on: the model reads {self.longest}")
        return ids

    def prepare(self, samples: Sequence[list[int]]) -> list[Inputs[list[int]]]:
        """Each by itself: what is drawn depends on the text and on the seed, not on other texts."""
        device = next(self.model.parameters()).device
        return [Inputs([ids], torch.tensor([[BEGIN, *ids]], device=device)) for ids in samples]

    def forward(self, inputs: Inputs[list[int]], options: Call, progress: Progress) -> list[list[str]]:
        """Whole texts that begin with this one."""
        (ids,) = inputs.samples
        room = self.longest - len(ids)
        generator = torch.Generator().manual_seed(options.seed)
        allow = spelled_words(self.model)
        allow[END] = True
        rows = list[list[int]]()
        for start in range(0, options.samples, AT_ONCE):
            assert isinstance(self.model, Stepping)
            drawn = sample(
                self.model,
                1,
                longest=room if options.longest is None else min(room, options.longest),
                generator=generator,
                count=min(AT_ONCE, options.samples - start),
                prompt=inputs.batch,
                allow=allow,
                temperature=options.temperature,
                top_k=options.top_k,
                top_p=options.top_p,
            )
            rows += drawn[0].tolist()
        return [[self.tokenizer.decode([*ids, *row]) for row in rows]]

    def postprocess(self, outputs: list[str], sample: list[int], options: Call) -> Result:
        return [{"generated_text": text} for text in outputs]

    def keywords(self, options: PredictOptions) -> dict[str, Any]:
        how = {name: getattr(options, name) for name in ("samples", "temperature", "top_k", "top_p", "seed")}
        return how | {"longest": options.max_length}

    def describe(self, found: Prediction[list[int], Result], files: dict[str, str], *, width: int) -> str:
        return "\n".join(row["generated_text"] for row in found.result)
