"""A trained masked language model as a function from a text with masked words to what they may be.

k masked words, v vocabulary
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vitrail.deploy import pipeline
from vitrail.deploy.pipeline import Inputs, Prediction, Progress
from vitrail.deploy.text_pipeline import TextPipeline
from vitrail.errors import VitrailError
from vitrail.models.decoding.extension import spelled_words
from vitrail.models.model import Model
from vitrail.special_tokens import END, MASK, SPECIAL_TOKENS
from vitrail.tasks.language.options import PredictOptions
from vitrail.tokenizer_json import SPACE

HIDDEN = SPECIAL_TOKENS[MASK]  # as it is written in a text
Result = list[Any]


@dataclass(frozen=True, kw_only=True)
class Call(pipeline.Call):
    top_k: int = 5

    def check(self) -> None:
        if self.top_k < 1:
            raise VitrailError(f"top_k must be at least 1, got {self.top_k}")


class Masked(NamedTuple):
    """The tokens of a text and END, and where MASK stands among them."""

    ids: list[int]
    places: list[int]


class FillMask(TextPipeline[Masked, Result]):
    """`fill("A <mask> sits")` gives [{"score", "token", "token_str", "sequence"}, ...], best first, as Hugging Face's pipeline does;
    of a text with several masked words such a list for each; a list of texts gives a list of those. A masked word is one subword of the
    tokenizer's, and its score the probability that the model gives it."""

    call = Call

    def check_purpose(self, model: Model) -> None:
        if model.pipeline_tag != "fill-mask":
            raise VitrailError(f"this model does not fill in hidden words: it is for {model.pipeline_tag}, not for fill-mask")

    def read(self, source: str) -> Masked:
        ids, places = list[int](), list[int]()
        for word in self.tokenizer.normalize(source).split():
            before, *behind = word.split(HIDDEN)
            ids += self.tokenizer.encode(before)
            for part in behind:
                places.append(len(ids))
                found = self.tokenizer.encode(part)
                # A mark that follows a word has no space before it, which alone it would have.
                ids += [MASK, *(found[1:] if self.tokenizer.pieces(found[:1]) == [SPACE] else found)]
        if not places:
            raise VitrailError(f'nothing is hidden in "{source}": write {HIDDEN} in place of a word')
        if len(ids) >= self.longest:
            raise VitrailError(f"a text of {len(ids)} tokens is too long: the model reads {self.longest - 1}")
        return Masked([*ids, END], places)

    def prepare(self, samples: Sequence[Masked]) -> list[Inputs[Masked]]:
        device = next(self.model.parameters()).device
        return [Inputs([one], torch.tensor([one.ids], device=device)) for one in samples]

    def forward(self, inputs: Inputs[Masked], options: Call, progress: Progress) -> list[Tensor]:
        """Probabilities of the vocabulary for each masked word, k v."""
        with torch.inference_mode():
            return [self.model(inputs.batch)[0, inputs.samples[0].places].float().softmax(dim=-1).cpu()]

    def postprocess(self, outputs: Tensor, sample: Masked, options: Call) -> Result:
        ids, places = sample
        allow = spelled_words(self.model)
        best = outputs.masked_fill(~allow, -1.0).topk(min(options.top_k, int(allow.sum())))
        rows: Result = [
            [
                {
                    "score": score,
                    "token": token,
                    "token_str": self.tokenizer.decode([token]),
                    "sequence": self.spell([*ids[:place], token, *ids[place + 1 :]]),
                }
                for score, token in zip(values, tokens, strict=True)
            ]
            for place, values, tokens in zip(places, best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        return rows[0] if len(rows) == 1 else rows

    def spell(self, ids: list[int]) -> str:
        """The text, what is still masked in it included."""
        parts, start = list[str](), 0
        for place in [*(place for place, token in enumerate(ids) if token == MASK), len(ids)]:
            parts.append(self.tokenizer.decode(ids[start:place]))
            start = place + 1
        return f" {HIDDEN} ".join(parts).strip()

    def keywords(self, options: PredictOptions) -> dict[str, Any]:
        return {} if options.top_k is None else {"top_k": options.top_k}

    def describe(self, found: Prediction[Masked, Result], files: dict[str, str], *, width: int) -> str:
        rows = found.result
        each = rows if isinstance(rows[0], list) else [rows]  # a list for each mask, where there are several
        return "\n".join("   ".join(f"{row['token_str']} {100 * row['score']:5.1f} %" for row in some) for some in each)
