"""A trained language model as a function from the beginning of a text to ways in which it may go on.

c samples, n new tokens
"""

from collections.abc import Sequence
from typing import Any

import torch

from vitrail.errors import VitrailError
from vitrail.models.decoding import sample
from vitrail.models.decoding.extension import spelled_words
from vitrail.models.purpose import purpose_of
from vitrail.special_tokens import BEGIN, END

AT_ONCE = 64  # samples that are drawn side by side


class TextGeneration:
    """`write("A man")` gives [{"generated_text": ...}], one for each of `samples`, the beginning included, as Hugging Face's
    pipeline does; a list of texts gives a list of such lists. The beginning is told as the model reads it: with one space between
    words, in lower case if the model knows no other."""

    def __init__(self, model: Any) -> None:
        if purpose_of(model) != "language":
            raise VitrailError(f"this model does not go on with a text: it is for {purpose_of(model)}, not for language")
        if model.tokenizer is None:
            raise VitrailError("this model has no tokenizer: it cannot read text")
        self.model, self.tokenizer = model.eval(), model.tokenizer
        self.longest = int(model.config.longest)

    def __call__(
        self,
        texts: str | Sequence[str],
        *,
        samples: int = 1,
        longest: int | None = None,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> Any:
        """At most `longest` new tokens; by default, and at most, as many as the model can read. A line's end is the text's."""
        if samples < 1 or (longest is not None and longest < 1):
            raise VitrailError(f"samples and longest must be at least 1, got {samples} and {longest}")
        if not 0 <= temperature < float("inf"):
            raise VitrailError(f"temperature must be a number from 0 up, got {temperature}")
        if (top_k is not None and top_k < 1) or (top_p is not None and not 0 < top_p <= 1):
            raise VitrailError(f"top_k must be at least 1 and top_p in (0, 1], got {top_k} and {top_p}")
        how: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        answers = [
            [{"generated_text": written} for written in self.write(text, samples=samples, longest=longest, seed=seed, **how)]
            for text in ([texts] if isinstance(texts, str) else texts)
        ]
        return answers[0] if isinstance(texts, str) else answers

    def write(self, text: str, *, samples: int, longest: int | None, seed: int, **how: Any) -> list[str]:
        """Whole texts that begin with this one. They depend on it and on the seed, not on other texts."""
        ids = self.tokenizer.encode(text)
        room = self.longest - len(ids)
        if room < 1:
            raise VitrailError(f"a text of {len(ids)} tokens leaves no room to go on: the model reads {self.longest}")
        generator = torch.Generator().manual_seed(seed)
        allow = spelled_words(self.model)
        allow[END] = True
        prompt = torch.tensor([[BEGIN, *ids]], device=next(self.model.parameters()).device)
        rows = list[list[int]]()
        for start in range(0, samples, AT_ONCE):
            drawn = sample(
                self.model,
                1,
                longest=room if longest is None else min(room, longest),
                generator=generator,
                count=min(AT_ONCE, samples - start),
                prompt=prompt,
                allow=allow,
                **how,
            )
            rows += drawn[0].tolist()
        return [self.tokenizer.decode([*ids, *row]) for row in rows]
